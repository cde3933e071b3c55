//! The scripts that install Flux into a pod and start its broker.

/// What the scripts are about.
pub struct Cluster {
    pub job: String,
    pub namespace: String,
    pub subdomain: String,
    pub nodes: i64,
    pub tasks: i64,
    pub gpus: i64,
    pub device: String,
    pub queue_policy: String,
}

impl Cluster {
    /// `job-node-0-[0-2]`.
    fn hosts(&self) -> String {
        format!("{}-node-0-[{}]", self.job, range(self.nodes))
    }

    fn broker(&self) -> String {
        format!(
            r#"[access]
allow-guest-user = true
allow-root-owner = true

[resource]
path = "/mnt/flux/config/etc/flux/system/R"

[bootstrap]
curve_cert = "/mnt/flux/config/etc/curve/curve.cert"
default_port = 8050
default_bind = "tcp://{device}:%p"
default_connect = "tcp://%h.{subdomain}.{namespace}.svc.cluster.local:%p"
hosts = [{{host = "{hosts}"}}]

[archive]
dbpath = "/mnt/flux/config/var/lib/flux/job-archive.sqlite"
period = "1m"
busytimeout = "50s"

[sched-fluxion-qmanager]
queue-policy = "{policy}"
"#,
            device = self.device,
            subdomain = self.subdomain,
            namespace = self.namespace,
            hosts = self.hosts(),
            policy = self.queue_policy,
        )
    }

    /// What the init container does.
    pub fn init(&self) -> String {
        format!(
            r#"#!/bin/bash
set -e
view=/opt/view
target=/mnt/flux/config
mkdir -p $target/etc/flux/config $target/etc/flux/system $target/etc/flux/imp/conf.d \
    $target/etc/curve $target/var/lib/flux $target/run/flux
echo "{hosts}" > $target/etc/flux/system/hostlist
cat >> $target/etc/flux/config/broker.toml <<'BROKER'
{broker}BROKER
cp -R $view /mnt/flux/view
cp -R /opt/software /mnt/flux/
touch /mnt/flux/flux-operator-done.txt
"#,
            hosts = self.hosts(),
            broker = self.broker(),
        )
    }

    /// What the container that trains does with the command it is given.
    pub fn entrypoint(&self) -> String {
        let mut resources = format!("--cores={}", range(self.tasks));
        let mut flags = format!("-N {} -n {}", self.nodes, self.tasks * self.nodes);
        if self.gpus > 0 {
            resources.push_str(&format!(" --gpu={}", range(self.gpus)));
            flags.push_str(&format!(" -g {}", self.gpus));
        }
        format!(
            r#"#!/bin/bash
command="$*"
config=/mnt/flux/config
export PATH=/mnt/flux/view/bin:$PATH
cp -R /mnt/flux/software/* /opt/software/ 2>/dev/null || true
cp /curve/curve.cert $config/etc/curve/curve.cert
chmod go-r $config/etc/curve/curve.cert
flux R encode --hosts={hosts} {resources} > $config/etc/flux/system/R
broker="-Scron.directory=$config/etc/flux/system/cron.d \
 -Srundir=$config/run/flux -Sstatedir=$config/var/lib/flux \
 -Slocal-uri=local://$config/run/flux/local -Stbon.connect_timeout=5s -Slog-stderr-level=6"
if [ "$(hostname)" == "{job}-node-0-0" ]; then
    if [ -z "$command" ]; then
        flux start -o --config $config/etc/flux/config $broker
    else
        flux start -o --config $config/etc/flux/config $broker flux run {flags} $command
    fi
else
    while true; do
        flux start -o --config $config/etc/flux/config $broker
        code=$?
        [ $code -eq 0 ] && exit 0
        sleep 15
    done
fi
"#,
            hosts = self.hosts(),
            job = self.job,
        )
    }
}

/// `0`, or `0-2`.
fn range(count: i64) -> String {
    if count <= 1 { "0".to_owned() } else { format!("0-{}", count - 1) }
}
