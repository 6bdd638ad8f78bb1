"""FleetRankings: questions to the evidence of many clusters, answered by Spark as SparkApplications."""
