-- Healthy: its last run succeeded, or none is due yet. Degraded: it failed, or none can begin. Progressing: one that is
-- asked once and has no answer yet; with a schedule a sync does not wait for a night's work.
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
    end
  elseif each.type == "Stalled" and each.status == "True" then
    health.status = "Degraded"
  end
end
return health
