//! The store, every test on SQLite and on Postgres.

mod announcements;
mod archives;
mod audit;
mod claims;
mod database;
mod executions;
mod isolation;
mod keys;
mod leases;
mod limits;
mod listings;
mod load;
mod migrations;
mod postgres;
mod reaping;
mod retention;
mod reviews;
mod segments;
mod settings;
mod skill_heads;
mod skills;
mod support;
mod tenants;
mod trust;
mod uploads;
mod webhooks;
