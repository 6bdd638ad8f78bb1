-- Health of the observing, not of Kafka: a sync must not wait until brokers are repaired. So KafkaHealthy and ViewTrusted
-- only stand in the message.
local health = { status = "Progressing", message = "the operator has not looked at it yet" }
local status = obj.status
if status == nil or status.conditions == nil or status.observedGeneration ~= obj.metadata.generation then
  return health
end
local condition = {}
for _, each in ipairs(status.conditions) do
  condition[each.type] = each
end
local ready, healthy, trusted = condition.Ready, condition.KafkaHealthy, condition.ViewTrusted
if ready == nil then
  return health
end
health.message = ready.message
if ready.status == "True" then
  health.status = "Healthy"
elseif ready.status == "False" then
  health.status = "Degraded"
end
if trusted ~= nil and trusted.status == "False" then
  health.message = health.message .. "; view not trusted: " .. trusted.message
end
if healthy ~= nil and healthy.status == "False" then
  health.message = health.message .. "; Kafka: " .. healthy.message
end
if obj.spec.suspend then
  health.message = health.message .. "; suspended"
end
return health
