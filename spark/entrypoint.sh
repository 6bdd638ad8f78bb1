#!/bin/sh
# What Spark on Kubernetes calls an image with, and sets in its environment:
#   driver ARGUMENTS...   spark-submit in client mode, reachable at the Pod's address
#   executor              one that serves the driver at SPARK_DRIVER_URL
# Anything else is a command of a person's.
set -eu

options() { # how many there are of SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1...
  number=0
  while printenv "SPARK_JAVA_OPT_$number" >/dev/null; do
    number=$((number + 1))
  done
  echo "$number"
}

case "${1:-}" in
driver)
  shift
  exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
    --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
  ;;
executor)
  set -- org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --app-id "$SPARK_APPLICATION_ID" \
    --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --hostname "$SPARK_EXECUTOR_POD_IP" --podName "$SPARK_EXECUTOR_POD_NAME" \
    --resourceProfileId "${SPARK_RESOURCE_PROFILE_ID:-0}"
  set -- "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*${SPARK_CLASSPATH:+:$SPARK_CLASSPATH}" "$@"
  number=$(options)
  while [ "$number" -gt 0 ]; do
    number=$((number - 1))
    set -- "$(printenv "SPARK_JAVA_OPT_$number")" "$@"
  done
  exec "$JAVA_HOME/bin/java" "$@"
  ;;
*)
  exec "$@"
  ;;
esac
