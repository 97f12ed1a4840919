//! Blob storage for one test, in a directory or on the S3 server of `SKILLBOX_TEST_S3_*`.

use std::path::Path;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Builder, Credentials, Region};
use blobs::{BlobKey, Blobs, S3Config};
use tempfile::TempDir;
use uuid::Uuid;

use crate::relay::Relay;

/// Makes each named function a test on either backend.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod in_directory {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::support::Bench::directory()).await;
            })+
        }
        mod on_s3 {
            $(#[tokio::test]
            async fn $test() {
                let Some(config) = $crate::support::server(concat!(module_path!(), "::", stringify!($test))) else { return };
                super::$test($crate::support::Bench::s3(config).await).await;
            })+
        }
    };
}
pub(crate) use on_both;

/// The S3 server of the tests. Without one the test reports that and is skipped.
pub(crate) fn server(test: &str) -> Option<S3Config> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test harness has no configuration to take it from"
    )]
    let set = |name: &str| std::env::var(format!("SKILLBOX_TEST_S3_{name}")).ok();
    let (Some(endpoint), Some(access_key), Some(secret_key)) =
        (set("ENDPOINT"), set("ACCESS_KEY"), set("SECRET_KEY"))
    else {
        println!(
            "NEEDS S3: {test} was not run, because SKILLBOX_TEST_S3_ENDPOINT, _ACCESS_KEY and _SECRET_KEY are not set"
        );
        return None;
    };
    Some(S3Config {
        endpoint,
        region: "us-east-1".to_owned(),
        access_key,
        secret_key,
        bucket_skills: "skillbox-test-skills".to_owned(),
        bucket_executions: "skillbox-test-executions".to_owned(),
        skills_read_only: false,
        public_url: None,
    })
}

/// Blob storage and a tenant of this test only. Its blobs are deleted when the test ends, also when
/// it fails.
pub(crate) struct Bench {
    pub blobs: Blobs,
    pub tenant: String,
    place: Place,
}

enum Place {
    Directory(TempDir),
    S3(S3Config),
}

impl Bench {
    pub(crate) fn directory() -> Bench {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let blobs = Blobs::directory(dir.path().join("blobs")).expect("a directory for blobs");
        Bench { blobs, tenant: "acme".to_owned(), place: Place::Directory(dir) }
    }

    pub(crate) async fn s3(config: S3Config) -> Bench {
        let blobs = Blobs::s3(config.clone()).await.expect("an S3 server");
        Bench { blobs, tenant: format!("test-{}", Uuid::new_v4()), place: Place::S3(config) }
    }

    /// On the server, through a relay that the test itself bypasses.
    pub(crate) async fn relayed(test: &str) -> Option<(Bench, Relay)> {
        let mut config = server(test)?;
        let relay = Relay::to(&config.endpoint).await;
        let direct = std::mem::replace(&mut config.endpoint, relay.url());
        let mut bench = Bench::s3(config.clone()).await;
        bench.place = Place::S3(S3Config { endpoint: direct, ..config });
        Some((bench, relay))
    }

    pub(crate) fn artifact(&self, path: &str) -> BlobKey {
        BlobKey::artifact(&self.tenant, 7, path)
    }

    pub(crate) fn archive(&self) -> BlobKey {
        BlobKey::archive(&self.tenant, 7)
    }

    pub(crate) fn skill(&self, digest: &str) -> BlobKey {
        BlobKey::skill(&self.tenant, digest)
    }

    pub(crate) fn dir(&self) -> &Path {
        match &self.place {
            Place::Directory(dir) => dir.path(),
            Place::S3(_) => panic!("this test is for directories"),
        }
    }

    /// The names of everything stored: the keys of blobs, and unfinished files or uploads.
    pub(crate) async fn names(&self) -> Vec<String> {
        match &self.place {
            Place::Directory(dir) => {
                let root = dir.path().join("blobs");
                let mut names = Vec::new();
                files(&root, &root, &mut names);
                names
            }
            Place::S3(config) => objects(config, &self.tenant).await,
        }
    }

    /// Waits until nothing is left: the uploads of dropped writers are aborted asynchronously.
    pub(crate) async fn is_empty(&self) {
        until(async || self.names().await.is_empty().then_some(())).await;
    }
}

fn files(root: &Path, dir: &Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).expect("a readable directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(root, &path, names);
        } else {
            names.push(path.strip_prefix(root).expect("below").display().to_string());
        }
    }
}

async fn objects(config: &S3Config, tenant: &str) -> Vec<String> {
    let (client, mut names) = (client(config), Vec::new());
    for bucket in [&config.bucket_skills, &config.bucket_executions] {
        let list = client.list_objects_v2().bucket(bucket).prefix(format!("{tenant}/"));
        let mut pages = list.into_paginator().send();
        while let Some(page) = pages.next().await {
            let objects = page.expect("a list").contents.unwrap_or_default();
            names.extend(objects.into_iter().filter_map(|object| object.key));
        }
        for (key, _) in uploads(config, bucket, tenant).await {
            names.push(format!("unfinished {key}"));
        }
    }
    names
}

/// The keys and ids of the unfinished uploads below this prefix.
pub(crate) async fn uploads(
    config: &S3Config,
    bucket: &str,
    prefix: &str,
) -> Vec<(String, String)> {
    let listed =
        client(config).list_multipart_uploads().bucket(bucket).send().await.expect("a list");
    let uploads = listed.uploads.unwrap_or_default().into_iter();
    let uploads = uploads.filter_map(|upload| Some((upload.key?, upload.upload_id?)));
    uploads.filter(|(key, _)| key.starts_with(prefix)).collect()
}

/// A client that bypasses the code under test.
pub(crate) fn client(config: &S3Config) -> Client {
    let credentials = Credentials::new(&config.access_key, &config.secret_key, None, None, "test");
    let config = Builder::new()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .endpoint_url(&config.endpoint)
        .force_path_style(true)
        .region(Region::new(config.region.clone()))
        .credentials_provider(credentials);
    Client::from_conf(config.build())
}

impl Drop for Bench {
    fn drop(&mut self) {
        let Place::S3(config) = &self.place else { return };
        let (config, tenant) = (config.clone(), std::mem::take(&mut self.tenant));
        in_a_runtime(async move {
            let client = client(&config);
            for name in objects(&config, &tenant).await {
                let bucket = if name.contains("/skills/") {
                    &config.bucket_skills
                } else {
                    &config.bucket_executions
                };
                let Some(key) = name.strip_prefix("unfinished ") else {
                    let _ = client.delete_object().bucket(bucket).key(name).send().await;
                    continue;
                };
                for (_, id) in uploads(&config, bucket, key).await {
                    let _ = client
                        .abort_multipart_upload()
                        .bucket(bucket)
                        .key(key)
                        .upload_id(id)
                        .send()
                        .await;
                }
            }
        });
    }
}

/// For cleaning up in `drop`, where nothing can be awaited.
pub(crate) fn in_a_runtime(work: impl Future<Output = ()> + Send + 'static) {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let bounded = async { drop(tokio::time::timeout(Duration::from_secs(30), work).await) };
    let _ = std::thread::spawn(move || runtime().block_on(bounded)).join();
}

/// Two buckets of this test only; they are deleted with their objects.
pub(crate) struct OwnBuckets(pub S3Config);

impl OwnBuckets {
    pub(crate) fn on(mut config: S3Config) -> OwnBuckets {
        let id = Uuid::new_v4();
        config.bucket_skills = format!("skillbox-{id}-s");
        config.bucket_executions = format!("skillbox-{id}-e");
        OwnBuckets(config)
    }
}

impl Drop for OwnBuckets {
    fn drop(&mut self) {
        let config = self.0.clone();
        in_a_runtime(async move {
            let client = client(&config);
            for bucket in [&config.bucket_skills, &config.bucket_executions] {
                let listed = client.list_objects_v2().bucket(bucket).send().await;
                for object in listed.ok().and_then(|listed| listed.contents).unwrap_or_default() {
                    let _ = client.delete_object().bucket(bucket).set_key(object.key).send().await;
                }
                let _ = client.delete_bucket().bucket(bucket).send().await;
            }
        });
    }
}

/// Polls `look` until it returns something, for changes without an event. The limit only keeps a
/// broken build from hanging.
pub(crate) async fn until<T>(look: impl AsyncFn() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("what was awaited never came")
}
