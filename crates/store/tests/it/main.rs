//! The store, every test on SQLite and on Postgres.

mod audit;
mod claims;
mod database;
mod executions;
mod isolation;
mod keys;
mod leases;
mod listings;
mod postgres;
mod reaping;
mod skills;
mod support;
mod tenants;
