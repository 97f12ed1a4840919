//! Finds orphaned containers.
//!
//! Several workers use one engine, and none knows which of the others are alive. So a container of
//! another owner is an orphan when its lease has expired, or when it has exited and its owner,
//! which normally removes it at once, has not done so. When a worker dies its containers exit,
//! because their standard input ends.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};

use crate::container_backend::{LEASE_LABEL, OWNER_LABEL, is_lease_expired};
use crate::launcher::Owner;

/// How long an owner has to remove an exited container. Less than the 15 seconds after which
/// nothing of a dead worker may be left.
const EXITED_GRACE_PERIOD: Duration = Duration::from_secs(6);

/// How long a container may exist before it is started: its owner makes two requests in between. A
/// slower owner loses a container in which nothing has run, and launches another.
const START_GRACE_PERIOD: Duration = Duration::from_secs(8);

/// A container to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OrphanContainer {
    pub id: String,
    /// Remove it even if it runs. Not set for a container that was listed as created: its owner may
    /// have started it since.
    pub force: bool,
}

/// When each container of others that does not run was first seen so. It uses our own clock,
/// because the clocks of other machines may differ.
#[derive(Default)]
pub(super) struct ContainerOrphanTracker(HashMap<String, Instant>);

impl ContainerOrphanTracker {
    /// The containers to remove now.
    pub(super) fn find_orphans(
        &mut self,
        all: &[ContainerSummary],
        owner: &Owner,
        now: Instant,
    ) -> Vec<OrphanContainer> {
        let others = all.iter().filter(|container| label(container, OWNER_LABEL) != Some(&owner.0));
        let mut still_idle = HashMap::new();
        let mut orphans = Vec::new();
        for container in others {
            let Some(id) = container.id.clone() else { continue };
            let was_created = container.state == Some(ContainerSummaryStateEnum::CREATED);
            let grace_period = grace_period(container.state);
            let idle_since = self.0.get(&id).copied().unwrap_or(now);
            if is_lease_expired(label(container, LEASE_LABEL)) {
                orphans.push(OrphanContainer { id, force: true });
            } else if grace_period.is_some_and(|grace_period| now - idle_since >= grace_period) {
                orphans.push(OrphanContainer { id, force: !was_created });
            } else if grace_period.is_some() {
                still_idle.insert(id, idle_since);
            }
        }
        // Containers that were removed, or that run now, are forgotten.
        self.0 = still_idle;
        orphans
    }
}

/// How long a container in this state is left to its owner; `None` for no limit but its lease.
fn grace_period(state: Option<ContainerSummaryStateEnum>) -> Option<Duration> {
    match state {
        Some(ContainerSummaryStateEnum::EXITED | ContainerSummaryStateEnum::DEAD) => {
            Some(EXITED_GRACE_PERIOD)
        }
        Some(ContainerSummaryStateEnum::CREATED) => Some(START_GRACE_PERIOD),
        _ => None,
    }
}

fn label<'a>(container: &'a ContainerSummary, name: &str) -> Option<&'a String> {
    container.labels.as_ref()?.get(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_backend::unix_time_seconds;

    fn container(
        id: &str,
        owner: &str,
        lease: u64,
        state: ContainerSummaryStateEnum,
    ) -> ContainerSummary {
        let labels = [(OWNER_LABEL, owner.to_owned()), (LEASE_LABEL, lease.to_string())];
        ContainerSummary {
            id: Some(id.to_owned()),
            labels: Some(labels.map(|(name, value)| (name.to_owned(), value)).into()),
            state: Some(state),
            ..ContainerSummary::default()
        }
    }

    #[test]
    fn orphans_of_others_are_removed_and_running_containers_stay() {
        use ContainerSummaryStateEnum::{CREATED, EXITED, RUNNING};
        let (me, start) = (Owner("me".to_owned()), Instant::now());
        let later = unix_time_seconds() + 1000;
        let all = [
            container("mine", "me", later, EXITED),
            container("running", "other", later, RUNNING),
            container("ended", "other", later, EXITED),
            container("starting", "other", later, CREATED),
            container("overdue", "other", 1, RUNNING),
        ];
        let mut tracker = ContainerOrphanTracker::default();
        let mut orphans = |all: &[ContainerSummary], after: Duration| {
            tracker.find_orphans(all, &me, start + after)
        };
        assert_eq!(orphans(&all, Duration::ZERO), [forced("overdue")]);
        assert_eq!(orphans(&all[..4], EXITED_GRACE_PERIOD / 2), []);
        assert_eq!(orphans(&all[..4], EXITED_GRACE_PERIOD), [forced("ended")]);
        assert_eq!(orphans(&all[..4], START_GRACE_PERIOD), [unless_running("starting")]);
        // A removed container is forgotten, and a new one of its name has the whole grace period.
        assert_eq!(orphans(&[], START_GRACE_PERIOD), []);
        assert_eq!(orphans(&all[2..3], START_GRACE_PERIOD * 2), []);
    }

    fn forced(id: &str) -> OrphanContainer {
        OrphanContainer { id: id.to_owned(), force: true }
    }

    fn unless_running(id: &str) -> OrphanContainer {
        OrphanContainer { id: id.to_owned(), force: false }
    }

    #[test]
    fn orphans_of_a_dead_owner_are_removed_within_fifteen_seconds() {
        use ContainerSummaryStateEnum::{CREATED, EXITED};
        let (me, lease) = (Owner("me".to_owned()), unix_time_seconds() + 1000);
        // The default interval of sweeps. In the worst case the owner dies just after one of them,
        // and each starts when the previous one has ended.
        let sweep_interval = Duration::from_millis(2600);
        for state in [CREATED, EXITED] {
            let orphan = [container("orphan", "dead", lease, state)];
            let (mut tracker, start) = (ContainerOrphanTracker::default(), Instant::now());
            let removed = (1..)
                .map(|n| sweep_interval * n)
                .find(|after| !tracker.find_orphans(&orphan, &me, start + *after).is_empty());
            assert!(
                removed.is_some_and(|after| after < Duration::from_secs(15)),
                "{state:?}: {removed:?}"
            );
        }
    }
}
