//! Blobs in a directory of a real file system and in the buckets of a real S3 server.

mod blobs;
mod deleting;
mod directory;
mod memory;
mod multipart;
mod outages;
mod presigning;
mod relay;
mod starting;
mod support;
mod worker;
mod writer;
