//! The catalogue on SQLite and a directory of blobs.

mod publishing;
mod reviews;
mod support;
