//! Measures how long a pod takes on the stand-in of a cluster that the tests use, one after the
//! other and many at once, as root: `cargo run --release -p sandbox --example pods --
//! target/release/skillbox 20 8`. A real cluster adds a scheduler, etcd and a kubelet; there
//! `skillbox_sandbox_launch_seconds` of a worker tells.

use std::error::Error;
use std::time::{Duration, Instant};

use cluster::{ClusterImage, ClusterSettings, RbacRule, TestCluster};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use language::Language;
use sandbox::{Images, KubernetesConfig, KubernetesLauncher, LaunchError, Launcher, Owner, Shape};

const NAMESPACE: &str = "skillbox-sandboxes";
const GUEST_IMAGE: &str = "skillbox/skillbox:test";
const IMAGE: &str = "skillbox/bash:test";

const SHAPE: Shape = Shape {
    language: Language::Bash,
    image: None,
    memory_bytes: 128 << 20,
    cpu_millis: 1000,
    pids: 64,
    disk_bytes: 32 << 20,
    disk_inodes: 4096,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().ok_or("usage: pods <skillbox> [times] [at once]")?;
    let times = arguments.next().map_or(Ok(20), |times| times.parse())?;
    let at_once = arguments.next().map_or(Ok(8), |count| count.parse())?;
    if let Some(missing) = cluster::missing_requirement() {
        return Err(format!("there is no {missing}").into());
    }
    let guest =
        ClusterImage::new(GUEST_IMAGE).with_program("skillbox", std::path::absolute(program)?);
    let images = vec![guest, ClusterImage::new(IMAGE)];
    let cluster =
        TestCluster::start(ClusterSettings { images, ..ClusterSettings::new(NAMESPACE) })?;
    let launcher = KubernetesLauncher::start(config(&cluster)?).await?;
    // The first one prepares what the others find.
    launcher.launch(&SHAPE).await?.discard().await;
    for width in [1, at_once] {
        measure(&launcher, times, width).await?;
    }
    cluster.wait_until_empty().await;
    Ok(())
}

fn config(cluster: &TestCluster) -> Result<KubernetesConfig, Box<dyn Error>> {
    Ok(KubernetesConfig {
        owner: Owner("measurement".to_owned()),
        kubeconfig: Some(cluster.kubeconfig("worker", NAMESPACE, vec![RbacRule::all()])?),
        namespace: NAMESPACE.to_owned(),
        runtime_class: None,
        guest_image: GUEST_IMAGE.to_owned(),
        seccomp_profile: None,
        user_namespaces: false,
        schedule_timeout: Duration::from_secs(60),
        lifetime: Duration::from_secs(600),
        removal_timeout: Duration::from_secs(60),
        max_output_bytes: 1 << 20,
        images: Images::new(|_| IMAGE.to_owned()),
        allowlist: vec![IMAGE.to_owned()],
        require: vec![],
    })
}

async fn measure(
    launcher: &KubernetesLauncher,
    times: usize,
    width: usize,
) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let one = async |_| {
        let began = Instant::now();
        let guest = launcher.launch(&SHAPE).await?;
        let ready = began.elapsed();
        guest.discard().await;
        Ok::<_, LaunchError>((ready, began.elapsed()))
    };
    let measured: Vec<_> =
        stream::iter(0..times).map(one).buffer_unordered(width).try_collect().await?;
    let (ready, removed) = measured.into_iter().unzip();
    let a_second = times as f64 / began.elapsed().as_secs_f64();
    let (ready, removed) = (median(ready), median(removed));
    println!(
        "{width:>3} at once: ready after {ready:.0} ms, removed after {removed:.0} ms (medians of {times}), {a_second:.2} a second"
    );
    Ok(())
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}
