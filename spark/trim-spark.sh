#!/bin/sh
# Removes from pyspark what the job never loads: streaming state, machine learning, Hive, Spark Connect, the Scala shell,
# and native code for other machines. Spark and Java get names without versions and architectures in them.
set -eu
spark=$(echo "$1"/lib/python3*/site-packages/pyspark)
ln -s "${spark#"$1"/}" "$1/spark"
ln -s "/usr/lib/jvm/java-17-openjdk-$(dpkg --print-architecture)" "$1/java"
rm -rf "$spark/examples"
cd "$spark/jars"
rm -f rocksdbjni-* \
  spark-mllib_* breeze_* breeze-macros_* spire* cats-kernel_* algebra_* arpack* blas-* lapack-* JTransforms-* jlargearrays-* \
  spark-graphx_* spark-connect_* spark-repl_* scala-compiler-* jline-* \
  spark-hive* hive-exec-* hive-metastore-* hive-beeline-* hive-cli-* hive-jdbc-* hive-serde-* hive-service-rpc-* hive-shims-* \
  hive-llap-* hive-vector-code-gen-* derby-* derbyshared-* derbytools-* datanucleus-* jdo-api-* javax.jdo-* \
  netty-tcnative-boringssl-static-*-osx-* netty-tcnative-boringssl-static-*-windows-*
