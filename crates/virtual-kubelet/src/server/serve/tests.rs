//! The whole server over real TLS, against an API server and a provider made for it.

mod limits;
mod refusals;
mod scene;
mod streams;
