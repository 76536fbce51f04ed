//! Pods: what is wanted upstairs, what the provider has, and what follows.
