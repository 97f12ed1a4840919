//! Which containers nobody will ever remove.
//!
//! Several workers use one engine, and none knows which of the others live. So a container of
//! another owner goes when its lease is over, or when it has ended and its owner, who removes it
//! within a moment, has not done so. A worker that dies takes its containers with it: they end when
//! their standard input does.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};

use crate::contained::{LEASE_LABEL, OWNER_LABEL};
use crate::launcher::Owner;

/// How long an owner has to remove what has ended. Less than the 15 seconds within which nothing
/// may be left.
const GRACE: Duration = Duration::from_secs(6);

/// How long a container may wait from being made to being started: its owner makes two calls in
/// between. An owner that needs longer loses a container in which nothing ran, and launches
/// another.
const STARTING: Duration = Duration::from_secs(8);

/// A container to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abandoned {
    pub id: String,
    /// Even if it runs. One that was never started when it was seen is left alone if it has been
    /// since.
    pub force: bool,
}

/// When each container of others that does not run was first seen so, by our own clock.
#[derive(Default)]
pub struct Seen(HashMap<String, Instant>);

impl Seen {
    /// What is to be removed now.
    pub fn abandoned(
        &mut self,
        all: &[ContainerSummary],
        owner: &Owner,
        now: Instant,
    ) -> Vec<Abandoned> {
        let others = all.iter().filter(|container| label(container, OWNER_LABEL) != Some(&owner.0));
        let mut still = HashMap::new();
        let mut abandoned = Vec::new();
        for container in others {
            let Some(id) = container.id.clone() else { continue };
            let patience = match container.state {
                Some(ContainerSummaryStateEnum::EXITED | ContainerSummaryStateEnum::DEAD) => {
                    Some(GRACE)
                }
                Some(ContainerSummaryStateEnum::CREATED) => Some(STARTING),
                _ => None,
            };
            let since = self.0.get(&id).copied().unwrap_or(now);
            if lease_is_over(container) {
                abandoned.push(Abandoned { id, force: true });
            } else if patience.is_some_and(|patience| now - since >= patience) {
                abandoned.push(Abandoned {
                    id,
                    force: container.state != Some(ContainerSummaryStateEnum::CREATED),
                });
            } else if patience.is_some() {
                still.insert(id, since);
            }
        }
        self.0 = still;
        abandoned
    }
}

fn label<'a>(container: &'a ContainerSummary, name: &str) -> Option<&'a String> {
    container.labels.as_ref()?.get(name)
}

/// A lease that cannot be read is none.
fn lease_is_over(container: &ContainerSummary) -> bool {
    let now = seconds_since_1970();
    label(container, LEASE_LABEL)
        .and_then(|until| until.parse::<u64>().ok())
        .is_none_or(|until| until < now)
}

pub fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_others_left_goes_and_what_lives_stays() {
        use ContainerSummaryStateEnum::{CREATED, EXITED, RUNNING};
        let (me, start) = (Owner("me".to_owned()), Instant::now());
        let later = seconds_since_1970() + 1000;
        let all = [
            container("mine", "me", later, EXITED),
            container("running", "other", later, RUNNING),
            container("ended", "other", later, EXITED),
            container("starting", "other", later, CREATED),
            container("overdue", "other", 1, RUNNING),
        ];
        let mut seen = Seen::default();
        assert_eq!(seen.abandoned(&all, &me, start), [whatever_it_does("overdue")]);
        assert_eq!(seen.abandoned(&all[..4], &me, start + GRACE / 2), []);
        assert_eq!(seen.abandoned(&all[..4], &me, start + GRACE), [whatever_it_does("ended")]);
        assert_eq!(seen.abandoned(&all[..4], &me, start + STARTING), [unless_it_runs("starting")]);
        // One that is gone is forgotten, and one that comes anew has its whole time.
        assert_eq!(seen.abandoned(&[], &me, start + STARTING), []);
        assert_eq!(seen.abandoned(&all[2..3], &me, start + STARTING * 2), []);
    }

    fn whatever_it_does(id: &str) -> Abandoned {
        Abandoned { id: id.to_owned(), force: true }
    }

    fn unless_it_runs(id: &str) -> Abandoned {
        Abandoned { id: id.to_owned(), force: false }
    }

    #[test]
    fn nothing_that_a_dead_owner_left_is_there_after_fifteen_seconds() {
        use ContainerSummaryStateEnum::{CREATED, EXITED};
        let (me, lease) = (Owner("me".to_owned()), seconds_since_1970() + 1000);
        // How often it is looked, by default: it is left just after a look, and each look comes
        // when the one before has ended.
        let look = Duration::from_millis(2600);
        for state in [CREATED, EXITED] {
            let left = [container("left", "dead", lease, state)];
            let (mut seen, start) = (Seen::default(), Instant::now());
            let gone = (1..)
                .map(|n| look * n)
                .find(|after| !seen.abandoned(&left, &me, start + *after).is_empty());
            assert!(
                gone.is_some_and(|after| after < Duration::from_secs(15)),
                "{state:?}: {gone:?}"
            );
        }
    }
}
