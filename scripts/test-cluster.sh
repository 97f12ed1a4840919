#!/usr/bin/env bash
# A single-node Kubernetes cluster for tests: the real API server, controllers, scheduler and kubelet, built from Debian 12's sources
# (scripts/build-kubernetes.sh), with a dedicated etcd and Docker engine. It listens only on the loopback interface.
#   scripts/test-cluster.sh start            starts all parts that do not run, and prints SKILLBOX_TEST_CLUSTER_…: ADMIN and WORKER, two
#                                            kubeconfigs; ENGINE, the engine with the node's images; KUBECTL; and SCRIPT, this file
#   scripts/test-cluster.sh status           prints the same if the cluster responds and its node is ready, otherwise fails
#   scripts/test-cluster.sh image <skillbox> loads the image skillbox/skillbox:test with this program into the node
#   scripts/test-cluster.sh kill <part>      kills etcd, kube-apiserver, kube-controller-manager, kube-scheduler or kubelet
#   scripts/test-cluster.sh restart [part]   kills a part (default: the API server) and starts it again
#   scripts/test-cluster.sh stop             stops everything that start started and removes its files
# ADMIN has all permissions. WORKER is a service account with only the permissions that scripts/test-cluster.yaml grants to a worker.
# Pods have no network. A lost node is detected within seconds; the defaults of Kubernetes would take minutes.
#
#   SKILLBOX_TEST_DIR    directory for its files (default: /var/tmp/skillbox-test-$UID)
#   SKILLBOX_TEST_CACHE  cache for programs and images (default: cache in that directory); stop does not remove it
set -euo pipefail
cd "$(dirname "$0")/.."

dir=${SKILLBOX_TEST_DIR:-/var/tmp/skillbox-test-$UID}
cache=${SKILLBOX_TEST_CACHE:-$dir/cache}
cluster=$dir/cluster
programs=$cache/kubernetes-$(cksum <scripts/build-kubernetes.sh | cut -d' ' -f1)
# All pods are below one dedicated cgroup.
cgroup=skillbox-cluster-$(printf %s "$cluster" | cksum | cut -d' ' -f1)
export DOCKER_HOST=unix://$cluster/engine/docker.sock

say() { echo "test-cluster: $*" >&2; }

engine() { SKILLBOX_TEST_DIR=$cluster SKILLBOX_TEST_CACHE=$cache scripts/test-engine.sh "$@"; }

as_admin() { "$programs/bin/kubectl" --kubeconfig "$cluster/admin.kubeconfig" --request-timeout 10s "$@"; }

# Prints the arguments of the process $1; nothing if it has exited or is a zombie.
arguments_of() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline"; } 2>/dev/null

# Prints the pid of the part $1, if it still belongs to this cluster: the pid may have been reused.
process_of() {
  local pid
  pid=$(cat "$cluster/$1.pid" 2>/dev/null) || return 1
  arguments_of "$pid" | grep --quiet --fixed-strings "$cluster/" && echo "$pid"
}

gone() { [[ -z $(arguments_of "$1") ]]; }

# Waits up to $1 seconds until the command in the other arguments succeeds.
wait_until() {
  local tries=$(($1 * 5))
  shift
  while ! "$@" >/dev/null 2>&1; do
    ((tries-- > 0)) || return 1
    sleep 0.2
  done
}

# Starts the part $1 with the command in the other arguments, unless it is running.
run_part() {
  local part=$1
  shift
  ! process_of "$part" >/dev/null || return 0
  # Started without the lock's file descriptor, because it would hold the lock forever.
  setsid "$@" </dev/null >>"$cluster/$part.log" 2>&1 9>&- &
  echo $! >"$cluster/$part.pid"
}

await() {
  local part=$1
  shift
  wait_until "$@" || { say "$part does not get ready:"; tail -20 "$cluster/$part.log" >&2; return 1; }
}

install_programs() {
  [[ ! -d $programs/bin ]] || return 0
  mkdir -p "$cache"
  rm -rf "$cache"/kubernetes-*
  scripts/build-kubernetes.sh "$programs"
}

free_ports() {
  python3 -c 'import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in held))' "$1"
}

random_hex() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

# Creates the certificate $1 for the subject $2 with the extensions $3, signed by our CA.
certificate() {
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$cluster/$1.key" -subj "$2" 2>/dev/null |
    openssl x509 -req -days 30 -CA "$cluster/ca.crt" -CAkey "$cluster/ca.key" -CAcreateserial -extfile <(printf %s "$3") \
      -out "$cluster/$1.crt" 2>/dev/null
}

certificates() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=skillbox-test-cluster \
    -keyout "$cluster/ca.key" -out "$cluster/ca.crt" 2>/dev/null
  certificate server /CN=skillbox-test-server 'subjectAltName=IP:127.0.0.1,DNS:localhost'
  certificate to-kubelet /CN=kube-apiserver/O=system:masters 'extendedKeyUsage=clientAuth'
  openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$cluster/accounts.key" 2>/dev/null
}

# Writes the kubeconfig $1 for the account with the token $2.
kubeconfig() {
  cat >"$cluster/$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:$API_PORT", certificate-authority: $cluster/ca.crt}}]
users: [{name: $1, user: {token: $2}}]
contexts: [{name: test, context: {cluster: test, user: $1, namespace: skillbox-sandboxes}}]
current-context: test
YAML
}

# Adds the user $1 in the group $2, with its own token.
user() {
  local token
  token=$(random_hex 20)
  echo "$token,$1,$1,$2" >>"$cluster/tokens.csv"
  kubeconfig "${1##*:}" "$token"
}

kubelet_configuration() {
  # Disables eviction: a nearly full disk must not evict pods, and removed images could not be pulled again.
  cat >"$cluster/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: $KUBELET_PORT
healthzPort: 0
tlsCertFile: $cluster/server.crt
tlsPrivateKeyFile: $cluster/server.key
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $cluster/ca.crt}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup
failSwapOn: false
# Enforces the size limit of in-memory volumes, as every release since 1.22 does by default.
featureGates: {SizeMemoryBackedVolumes: true}
makeIPTablesUtilChains: false
nodeStatusUpdateFrequency: 1s
nodeLeaseDurationSeconds: 4
podPidsLimit: 1024
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%}
YAML
}

configure() {
  [[ ! -f $cluster/ports ]] || return 0
  mkdir -p -m 700 "$cluster"
  local ports
  read -ra ports < <(free_ports 4)
  certificates
  API_PORT=${ports[0]} KUBELET_PORT=${ports[1]}
  : >"$cluster/tokens.csv"
  user admin system:masters
  user system:kube-controller-manager ''
  user system:kube-scheduler ''
  user system:node:localhost system:nodes
  kubelet_configuration
  printf '%s=%s\n' API_PORT "${ports[0]}" KUBELET_PORT "${ports[1]}" ETCD_PORT "${ports[2]}" PEER_PORT "${ports[3]}" >"$cluster/ports"
}

start_etcd() {
  run_part etcd "$programs/bin/etcd" --data-dir "$cluster/etcd" --listen-client-urls "http://127.0.0.1:$ETCD_PORT" \
    --advertise-client-urls "http://127.0.0.1:$ETCD_PORT" --listen-peer-urls "http://127.0.0.1:$PEER_PORT" \
    --initial-advertise-peer-urls "http://127.0.0.1:$PEER_PORT" --initial-cluster "default=http://127.0.0.1:$PEER_PORT"
}

start_api_server() {
  run_part kube-apiserver "$programs/bin/kube-apiserver" --etcd-servers "http://127.0.0.1:$ETCD_PORT" \
    --bind-address 127.0.0.1 --secure-port "$API_PORT" --tls-cert-file "$cluster/server.crt" --tls-private-key-file "$cluster/server.key" \
    --token-auth-file "$cluster/tokens.csv" --anonymous-auth=false --authorization-mode Node,RBAC \
    --enable-admission-plugins NodeRestriction,PodSecurityPolicy \
    --service-account-issuer https://skillbox-test-cluster --service-account-key-file "$cluster/accounts.key" \
    --service-account-signing-key-file "$cluster/accounts.key" --service-cluster-ip-range 10.254.0.0/24 \
    --kubelet-certificate-authority "$cluster/ca.crt" --kubelet-client-certificate "$cluster/to-kubelet.crt" \
    --kubelet-client-key "$cluster/to-kubelet.key" --kubelet-preferred-address-types Hostname \
    --default-not-ready-toleration-seconds 3 --default-unreachable-toleration-seconds 3
  await kube-apiserver 90 as_admin get --raw /readyz
}

start_controllers() {
  run_part kube-controller-manager "$programs/bin/kube-controller-manager" --kubeconfig "$cluster/kube-controller-manager.kubeconfig" \
    --port 0 --secure-port 0 --leader-elect=false --use-service-account-credentials \
    --service-account-private-key-file "$cluster/accounts.key" --root-ca-file "$cluster/ca.crt" \
    --node-monitor-period 1s --node-monitor-grace-period 6s
  run_part kube-scheduler "$programs/bin/kube-scheduler" --kubeconfig "$cluster/kube-scheduler.kubeconfig" \
    --port 0 --secure-port 0 --leader-elect=false
}

# The kubelet changes kernel settings of the whole machine. It runs in a mount namespace in which these settings are plain files that
# already have the required values.
readonly kernel_settings=(vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000)

# The pod network: every pod gets an address, because the kubelet requires one, on an interface without a route.
network() {
  mkdir -p "$cluster/cni"
  echo '{"cniVersion": "0.2.0", "name": "nowhere", "type": "nowhere"}' >"$cluster/cni/nowhere.conf"
  cat >"$cluster/cni/nowhere" <<'SH'
#!/usr/bin/env bash
set -eu
inside() { nsenter --net="$CNI_NETNS" ip "$@" >&2; }
case $CNI_COMMAND in
  VERSION) echo '{"cniVersion": "0.4.0", "supportedVersions": ["0.2.0", "0.3.0", "0.3.1", "0.4.0"]}' ;;
  ADD)
    address=10.253.$((16#${CNI_CONTAINERID:0:2})).$((16#${CNI_CONTAINERID:2:2}))/32
    if [[ $0 == */loopback ]]; then
      inside link set lo up
    else
      inside link add "$CNI_IFNAME" type bridge
      inside address add "$address" dev "$CNI_IFNAME"
      inside link set "$CNI_IFNAME" up
    fi
    echo '{"cniVersion": "0.2.0", "ip4": {"ip": "'"$address"'"}}' ;;
esac
SH
  chmod 755 "$cluster/cni/nowhere"
  ln -sf nowhere "$cluster/cni/loopback"
}

start_kubelet() {
  local setting file controller
  for controller in /sys/fs/cgroup/*/; do mkdir -p "$controller$cgroup"; done
  mkdir -p "$cluster/kubelet" "$cluster/settings"
  network
  # Volumes that the kubelet mounts for a pod must be visible to the engine, which runs outside of this namespace.
  if ! mountpoint --quiet "$cluster/kubelet"; then
    mount --bind "$cluster/kubelet" "$cluster/kubelet"
    mount --make-shared "$cluster/kubelet"
  fi
  local hide='mount --make-rprivate /proc'
  for setting in "${kernel_settings[@]}"; do
    file=$cluster/settings/${setting%=*}
    mkdir -p "${file%/*}"
    echo "${setting#*=}" >"$file"
    hide+="; mount --bind '$file' '/proc/sys/${setting%=*}'"
  done
  run_part kubelet unshare --mount --propagation unchanged bash -euc "$hide; exec \"\$@\"" kubelet \
    "$programs/bin/kubelet" --config "$cluster/kubelet.yaml" --kubeconfig "$cluster/localhost.kubeconfig" \
    --root-dir "$cluster/kubelet" --hostname-override localhost \
    --network-plugin cni --cni-bin-dir "$cluster/cni" --cni-conf-dir "$cluster/cni" --cni-cache-dir "$cluster/cni/cache" \
    --container-runtime docker --docker-endpoint "$DOCKER_HOST" --pod-infra-container-image skillbox/pause:test
}

# Builds the pause image, which holds a pod's namespaces, because there is no registry: it waits until it is terminated.
import_pause() {
  ! docker image inspect skillbox/pause:test >/dev/null 2>&1 || return 0
  local image=$cluster/pause
  mkdir -p "$image"
  cc -static -O1 -x c - -o "$image/pause" <<'C'
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int signal) { (void)signal; _exit(0); }
static void reap(int signal) { (void)signal; while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) { signal(SIGINT, end); signal(SIGTERM, end); signal(SIGCHLD, reap); for (;;) pause(); }
C
  tar -C "$image" -c pause | docker import --change 'USER 65535:65535' --change 'ENTRYPOINT ["/pause"]' - skillbox/pause:test >/dev/null
  rm -r "$image"
}

# Builds the image with the guest for pods: the program with its shared libraries, as in deploy/docker/Dockerfile.
import_skillbox() {
  local image=$cluster/image
  rm -rf "$image"
  mkdir -p "$image/usr/local/bin"
  cp "$1" "$image/usr/local/bin/skillbox"
  ldd "$1" | grep -o '/[^ ]*' | xargs cp --parents --dereference --target-directory "$image"
  tar -C "$image" -c . | docker import --change 'ENV PATH=/usr/local/bin' --change 'USER 65532:65532' \
    --change 'ENTRYPOINT ["skillbox"]' - skillbox/skillbox:test >/dev/null
  rm -r "$image"
}

node_ready() { [[ $(as_admin get node localhost -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}') == True ]]; }

worker_secret() { as_admin --namespace skillbox get serviceaccount skillbox-worker -o 'jsonpath={.secrets[0].name}' | grep .; }

# Writes the kubeconfig of the worker's service account.
worker() {
  [[ ! -f $cluster/worker.kubeconfig ]] || return 0
  as_admin apply -f scripts/test-cluster.yaml >&2
  wait_until 30 worker_secret
  kubeconfig worker "$(as_admin --namespace skillbox get secret "$(worker_secret)" -o 'jsonpath={.data.token}' | base64 --decode)"
}

start() {
  ((EUID == 0)) || { say 'a node needs root'; exit 1; }
  scripts/setup-tests.sh cc ip openssl docker runsc debootstrap >&2
  mkdir -p "$dir"
  exec 9>"$dir/cluster.lock"
  flock 9
  install_programs
  configure
  . "$cluster/ports"
  start_etcd
  engine start >/dev/null 9>&-
  import_pause
  start_api_server
  start_controllers
  start_kubelet
  worker
  await kubelet 90 node_ready
  exec 9>&-
}

# Simulates a crash: SIGKILL without a graceful shutdown.
kill_part() {
  local pid
  pid=$(process_of "$1") || { say "$1 does not run"; exit 1; }
  kill -KILL "$pid"
  wait_until 20 gone "$pid"
}

stop() {
  [[ -d $cluster ]] || return 0
  local part
  # Kill the kubelet first, because it would restart containers that the engine stops. No data is kept, so no graceful shutdown is needed.
  for part in kubelet kube-scheduler kube-controller-manager kube-apiserver etcd; do
    ! process_of "$part" >/dev/null || kill_part "$part"
  done
  engine stop
  # Unmount in reverse order of depth, nested mounts first.
  awk -v dir="$cluster/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | sort --reverse |
    while read -r mount; do umount --lazy "$mount" || true; done
  find /sys/fs/cgroup -depth -type d -path "*/$cgroup*" -exec rmdir {} + 2>/dev/null || true
  rm -rf --one-file-system "$cluster"
  rm -f "$dir/cluster.lock"
}

print_where() {
  printf 'SKILLBOX_TEST_CLUSTER_%s\n' "ADMIN=$cluster/admin.kubeconfig" "WORKER=$cluster/worker.kubeconfig" \
    "ENGINE=$DOCKER_HOST" "KUBECTL=$programs/bin/kubectl" "SCRIPT=$PWD/scripts/test-cluster.sh"
}

case ${1-} in
  start) start; print_where ;;
  status) node_ready 2>/dev/null && print_where ;;
  image) import_skillbox "${2:?the program}" ;;
  kill) kill_part "${2:?the part to kill}" ;;
  restart) kill_part "${2:-kube-apiserver}"; start ;;
  stop) stop ;;
  *) echo 'usage: test-cluster.sh start|status|image|kill|restart|stop' >&2; exit 2 ;;
esac
