-- Healthy: it is valid. Degraded: it is not, and the message says where.
local health = { status = "Progressing", message = "the operator has not looked at it yet" }
local status = obj.status
if status == nil or status.conditions == nil or status.observedGeneration ~= obj.metadata.generation then
  return health
end
for _, each in ipairs(status.conditions) do
  if each.type == "Ready" then
    health.message = each.message
    if each.status == "True" then
      health.status = "Healthy"
    elseif each.status == "False" then
      health.status = "Degraded"
    end
  end
end
return health
