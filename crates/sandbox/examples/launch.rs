//! Measures the launch and removal times of sandboxes, native and on an engine: `cargo run
//! --release -p sandbox --example launch -- unix:///var/run/docker.sock 20 runsc`.

use std::error::Error;
use std::time::{Duration, Instant};

use language::Language;
use sandbox::{
    DockerConfig, DockerLauncher, Images, Launcher, NativeConfig, NativeLauncher, Owner, Shape,
};

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
    let host = arguments.next().ok_or("usage: launch <engine> [times] [runtime…]")?;
    let times = arguments.next().map_or(Ok(20), |times| times.parse())?;
    let owner = || Owner("measurement".to_owned());
    let native = NativeLauncher::start(NativeConfig {
        owner: owner(),
        processes: 1,
        require: vec![],
        search_path: None,
    })?;
    measure("native", &native, times).await?;
    for runtime in std::iter::once(None).chain(arguments.map(Some)) {
        let images = Images::new(|language| format!("skillbox/{language}:test"));
        let allowlist = vec![images.image_for(Language::Bash).to_owned()];
        let name = format!("docker {}", runtime.as_deref().unwrap_or("default"));
        let (owner, host, lifetime, require) =
            (owner(), host.clone(), Duration::from_secs(600), vec![]);
        let config = DockerConfig { owner, host, runtime, lifetime, images, allowlist, require };
        measure(&name, &DockerLauncher::start(config).await?, times).await?;
    }
    Ok(())
}

async fn measure(name: &str, launcher: &dyn Launcher, times: usize) -> Result<(), Box<dyn Error>> {
    // The first launch has extra setup costs.
    launcher.launch(&SHAPE).await?.discard().await;
    let (mut ready, mut removed) = (Vec::new(), Vec::new());
    for _ in 0..times {
        let began = Instant::now();
        let guest = launcher.launch(&SHAPE).await?;
        ready.push(began.elapsed());
        guest.discard().await;
        removed.push(began.elapsed());
    }
    println!(
        "{name:<16} ready after {:>7.1} ms, removed after {:>7.1} ms (medians of {times})",
        median(ready),
        median(removed)
    );
    Ok(())
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}
