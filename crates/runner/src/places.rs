//! How many callers wait here for the end of an execution, and how many of them are one tenant's.
//!
//! A tenant may take a place as long as it has fewer than are free. So one alone gets half of them, two get a third
//! each, and however many there are, the next one finds some: nobody can keep others out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use store::TenantId;

#[derive(Clone)]
pub struct Places {
    most: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by: HashMap<TenantId, usize>,
}

/// One caller's place, free again when this is dropped.
#[must_use = "the place is free again when this is dropped"]
pub struct Place {
    places: Places,
    tenant: TenantId,
}

impl Places {
    pub fn new(most: usize) -> Places {
        Places { most, taken: Arc::default() }
    }

    /// None when this tenant has its share.
    pub fn take(&self, tenant: &TenantId) -> Option<Place> {
        let mut taken = self.lock();
        let own = taken.by.get(tenant).copied().unwrap_or(0);
        if own >= self.most.saturating_sub(taken.all) {
            return None;
        }
        taken.all += 1;
        *taken.by.entry(tenant.clone()).or_default() += 1;
        Some(Place { places: self.clone(), tenant: tenant.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all -= 1;
        if let Some(own) = taken.by.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                taken.by.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::try_from(name).expect("a tenant's name")
    }

    fn as_many_as_it_gets(places: &Places, name: &str) -> Vec<Place> {
        std::iter::from_fn(|| places.take(&tenant(name))).collect()
    }

    #[test]
    fn nobody_takes_all_and_the_next_one_always_finds_some() {
        let places = Places::new(12);
        let first = as_many_as_it_gets(&places, "first");
        let second = as_many_as_it_gets(&places, "second");
        let third = as_many_as_it_gets(&places, "third");
        assert_eq!([first.len(), second.len(), third.len()], [6, 3, 2]);
        drop((first, second, third));
        assert!(places.lock().by.is_empty(), "none is remembered");
        assert_eq!(as_many_as_it_gets(&places, "third").len(), 6);
    }

    #[test]
    fn the_bound_holds_however_many_come() {
        let places = Places::new(5);
        let names: Vec<String> = (0..9).map(|number| format!("t{number}")).collect();
        let all: Vec<Place> = names.iter().filter_map(|name| places.take(&tenant(name))).collect();
        assert_eq!(all.len(), 5);
    }
}
