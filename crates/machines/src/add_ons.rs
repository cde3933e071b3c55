//! What a cluster has of the add-ons that machines are made of. An operator does with what there
//! is, says what is missing, and begins anew when that comes.

use std::time::Duration;

use reconcile::requests::Requests;
use reconcile::{Context, Error, Kind, Name, conditions, entry};

use crate::kinds::{
    ATTACHMENT, DATA_VOLUME, DEFINITION, INSTANCE, MACHINE, POLICY, RESTORE, SNAPSHOT,
};
use crate::value::list;
use crate::{ALL, Options};

/// How often is looked for what is missing.
pub const LOOK: Duration = Duration::from_secs(30);

/// Which add-ons there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddOns {
    /// Machines and their instances.
    pub kubevirt: bool,
    /// Snapshots of machines.
    pub snapshots: bool,
    /// Volumes that are filled from images.
    pub importer: bool,
    /// Networks beside that of pods.
    pub multus: bool,
    /// Bridges on machines of the cluster.
    pub nmstate: bool,
}

impl Default for AddOns {
    fn default() -> AddOns {
        AddOns { kubevirt: true, snapshots: true, importer: true, multus: true, nmstate: true }
    }
}

impl AddOns {
    /// Asks the cluster.
    pub async fn find(requests: &Requests) -> Result<AddOns, Error> {
        let mut has = [false; 5];
        let kinds: [&[Kind]; 5] =
            [&[MACHINE, INSTANCE], &[SNAPSHOT, RESTORE], &[DATA_VOLUME], &[ATTACHMENT], &[POLICY]];
        for (has, kinds) in has.iter_mut().zip(kinds) {
            *has = true;
            for kind in kinds {
                *has = *has && is_served(requests, *kind).await?;
            }
        }
        let [kubevirt, snapshots, importer, multus, nmstate] = has;
        Ok(AddOns { kubevirt, snapshots, importer, multus, nmstate })
    }

    fn is_complete(self) -> bool {
        self == AddOns::default()
    }
}

/// The name of the definition of a kind.
pub fn definition_name(kind: Kind) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

async fn is_served(requests: &Requests, kind: Kind) -> Result<bool, Error> {
    let name = Name::new("", definition_name(kind));
    let Some(definition) = requests.get(DEFINITION, &name).await? else { return Ok(false) };
    let mut versions = list(&definition.value["spec"]["versions"]).iter();
    let is_served = versions.any(|one| one["name"] == kind.version && one["served"] == true);
    Ok(is_served && conditions::is_true(&definition.value["status"], "Established"))
}

/// Runs the operators with what there is.
pub async fn run_with(context: Context, options: Options) {
    loop {
        let requests = context.requests("wukong", Default::default());
        let add_ons = tokio::select! {
            () = context.stopping() => return,
            found = wait_for(&requests, Duration::ZERO, |_| true) => found,
        };
        tracing::info!(?add_ons, "what machines are made of");
        let options = Options { add_ons, ..options };
        let mut running = entry::start(ALL, |_| context.clone(), (options.enabled, &options));
        let more = async {
            match add_ons.is_complete() {
                true => std::future::pending().await,
                false => wait_for(&requests, LOOK, |found| found != add_ons).await,
            }
        };
        tokio::select! {
            () = async { while running.join_next().await.is_some() {} } => return,
            _ = more => running.shutdown().await,
        }
    }
}

/// Asks until an answer will do.
async fn wait_for(
    requests: &Requests,
    first: Duration,
    will_do: impl Fn(AddOns) -> bool,
) -> AddOns {
    let mut delay = first;
    loop {
        tokio::time::sleep(delay).await;
        delay = LOOK;
        match AddOns::find(requests).await {
            Ok(found) if will_do(found) => return found,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(error = %error.chain(), "could not ask what the cluster has");
                delay = Duration::from_secs(1);
            }
        }
    }
}
