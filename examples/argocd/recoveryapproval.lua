-- Healthy: it counts. Degraded: it does not, and the message says why. It belongs into no repository; this is for the
-- list of a namespace's orphaned resources.
local health = { status = "Progressing", message = "the operator has not looked at it yet" }
if obj.status == nil or obj.status.conditions == nil then
  return health
end
for _, each in ipairs(obj.status.conditions) do
  if each.type == "Accepted" then
    health.message = each.message
    if each.status == "True" then
      health.status = "Healthy"
    else
      health.status = "Degraded"
    end
  end
end
return health
