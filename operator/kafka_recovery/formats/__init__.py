"""Files and documents: policies, lists of partitions, canonical JSON; each is checked whole before it is used."""
