-- An Application of Applications waits for each of them only if Argo CD is told when one is healthy.
local health = { status = "Progressing", message = "" }
if obj.status ~= nil and obj.status.health ~= nil and obj.status.health.status ~= nil then
  health.status = obj.status.health.status
  if obj.status.health.message ~= nil then
    health.message = obj.status.health.message
  end
end
return health
