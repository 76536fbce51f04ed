//! Where a pod may land: the split of its constraints between upper and lower cluster.
