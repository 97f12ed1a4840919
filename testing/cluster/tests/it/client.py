"""The Python client of Kubernetes against the stand-in. Every step that does not go as on a real cluster ends it.

    client.py <kubeconfig> <namespace> <pod as JSON>
"""

import json
import sys

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream


def refused(status, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except ApiException as error:
        assert error.status == status, (error.status, status)
        return json.loads(error.body)
    raise AssertionError(f"not refused with {status}")


def main(kubeconfig, namespace, pod):
    config.load_kube_config(kubeconfig)
    assert client.VersionApi().get_code().major == "1"
    api = client.CoreV1Api()
    name, labels = pod["metadata"]["name"], "app=test"
    before = api.list_namespaced_pod(namespace, label_selector=labels)
    assert before.items == []
    made = api.create_namespaced_pod(namespace, pod)
    assert made.status.phase == "Pending"
    assert refused(409, api.create_namespaced_pod, namespace, pod)["reason"] == "AlreadyExists"

    # From before it was made, by its labels, until it runs.
    kinds = []
    changes = watch.Watch()
    for change in changes.stream(
        api.list_namespaced_pod,
        namespace,
        label_selector=labels,
        resource_version=before.metadata.resource_version,
        timeout_seconds=60,
    ):
        kinds.append(change["type"])
        if change["object"].status.phase == "Running":
            changes.stop()
    assert kinds[0] == "ADDED" and kinds[-1] == "MODIFIED", kinds

    attached = stream(
        api.connect_get_namespaced_pod_attach,
        name,
        namespace,
        container="main",
        stdin=True,
        stdout=True,
        stderr=True,
        _preload_content=False,
    )
    attached.write_stdin("one\n")
    attached.run_forever(timeout=60)
    assert not attached.is_open(), "its end is the end of the streams"
    assert (attached.read_stdout(), attached.read_stderr()) == ("received one\n", "oops\n")

    def until(seen):
        for change in watch.Watch().stream(
            api.list_namespaced_pod, namespace, field_selector=f"metadata.name={name}", timeout_seconds=60
        ):
            if seen(change):
                return change["object"]
        raise AssertionError("nothing more was received")

    over = until(lambda change: change["object"].status.phase == "Failed")
    assert over.status.container_statuses[0].state.terminated.exit_code == 4
    api.delete_namespaced_pod(name, namespace)
    assert refused(404, api.read_namespaced_pod, name, namespace)["reason"] == "NotFound"
    print("as on a real one")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
