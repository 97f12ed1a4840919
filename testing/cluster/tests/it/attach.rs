//! The streams of a container over a websocket.

use kube::api::{AttachParams, DeleteParams, PostParams};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use crate::support::{body, phase, pod, pods, start};

fn both() -> AttachParams {
    AttachParams::default().stdin(true).stdout(true).stderr(true).container("main")
}

#[tokio::test]
async fn streams_use_channels_and_earlier_output_is_lost() {
    let Some(cluster) = start("attach") else { return };
    let api = pods(&cluster).await;
    let script = "read x; echo before; read x; echo \"$x\"; echo oops >&2; cat; exit 4";
    api.create(&PostParams::default(), &pod(body("talks", script))).await.unwrap();
    assert!(cluster.wait_until(|pods| phase(pods) == "Running").await);
    let mut attached = api.attach("talks", &both()).await.unwrap();
    let (mut input, mut output) = (attached.stdin().unwrap(), attached.stdout().unwrap());
    let mut errors = attached.stderr().unwrap();
    let status = attached.take_status().unwrap();
    input.write_all(b"go\n").await.unwrap();
    let mut before = [0; 7];
    output.read_exact(&mut before).await.unwrap();
    assert_eq!(&before, b"before\n");
    // A second client attaches when that line is out, so it receives only the next one.
    let outputs = AttachParams::default().stdout(true).stderr(true).container("main");
    let mut late = api.attach("talks", &outputs).await.unwrap();
    input.write_all(b"one\n").await.unwrap();
    for output in [&mut output as &mut (dyn AsyncRead + Unpin), &mut late.stdout().unwrap()] {
        let mut line = [0; 4];
        output.read_exact(&mut line).await.unwrap();
        assert_eq!(&line, b"one\n");
    }
    drop(late);
    let big = vec![b'x'; 300_000];
    let (written, read) = tokio::join!(
        async {
            input.write_all(&big).await.unwrap();
            // Only since v5: closing the input leaves the output open.
            input.shutdown().await.unwrap();
            drop(input);
        },
        async {
            let (mut text, mut said) = (Vec::new(), Vec::new());
            let (one, other) =
                tokio::join!(output.read_to_end(&mut text), errors.read_to_end(&mut said));
            (one.unwrap(), other.unwrap(), text, said)
        }
    );
    let () = written;
    assert!(read.2 == big, "{} bytes", read.2.len());
    assert_eq!(read.3, b"oops\n");
    assert_eq!(status.await.unwrap().status.as_deref(), Some("Success"));
    assert!(cluster.wait_until(|pods| phase(pods) == "Failed").await);
    assert!(api.attach("talks", &both()).await.is_err(), "nothing runs any more");
    api.delete("talks", &DeleteParams::default()).await.unwrap();
    assert!(cluster.wait_until_empty().await);
}

#[tokio::test]
async fn a_disconnected_client_ends_the_input() {
    let Some(cluster) = start("a cut") else { return };
    let api = pods(&cluster).await;
    api.create(&PostParams::default(), &pod(body("cut", "cat; exit 9"))).await.unwrap();
    assert!(cluster.wait_until(|pods| phase(pods) == "Running").await);
    let mut attached = api.attach("cut", &both()).await.unwrap();
    let (mut input, mut output) = (attached.stdin().unwrap(), attached.stdout().unwrap());
    input.write_all(b"on").await.unwrap();
    let mut received = [0; 2];
    output.read_exact(&mut received).await.unwrap();
    let status = attached.take_status().unwrap();
    cluster.drop_attachments();
    assert!(status.await.is_none(), "nobody said how it ended");
    assert!(cluster.wait_until(|pods| phase(pods) == "Failed").await);
    api.delete("cut", &DeleteParams::default()).await.unwrap();
    assert!(cluster.wait_until_empty().await);
}
