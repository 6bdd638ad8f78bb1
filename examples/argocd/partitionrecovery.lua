-- Healthy: every partition has a verified leader. Suspended: a person has to say something, or suspended it.
-- Degraded: refused, failed or aborted. Progressing: all else.
local health = { status = "Progressing", message = "the operator has not looked at it yet" }
local status = obj.status
if status == nil or status.conditions == nil or status.observedGeneration ~= obj.metadata.generation then
  return health
end
local condition = {}
for _, each in ipairs(status.conditions) do
  condition[each.type] = each
end
local ready, stalled, approved = condition.Ready, condition.Stalled, condition.Approved
if ready == nil then
  return health
end
health.message = ready.message
-- While a plan waits for its approval, Ready and Approved name the same reason.
local asks = approved ~= nil and approved.status == "False" and approved.reason == ready.reason
if ready.status == "True" then
  health.status = "Healthy"
elseif stalled ~= nil and stalled.status == "True" then
  health.status = "Degraded"
elseif asks or ready.reason == "Suspended" then
  health.status = "Suspended"
end
return health
