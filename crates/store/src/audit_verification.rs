//! Verification of a tenant's audit log: whether its entries form the chain that the head names.

use crate::{AuditHead, AuditRecord, TenantId};

/// A problem of a log. The text names the entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditProblem {
    #[error("entry {0} was modified, or one before it was removed or moved")]
    Modified(i64),
    #[error("entry {0} is missing")]
    Missing(i64),
    #[error("the log ends at entry {last}, but the head names entry {head}: it was truncated")]
    Truncated { last: i64, head: i64 },
    #[error("entry {0} is not the one that the head names")]
    OtherHead(i64),
    #[error("{found} entries are outside the chain, but the head counts {counted}")]
    Unchained { found: i64, counted: i64 },
    #[error("entry {0} is of tenant {1}")]
    OtherTenant(i64, TenantId),
}

/// Checks the whole log of a tenant, in any order, against a head. Entries after the head are
/// checked too: they were written after it was saved. Without a head, a truncated log passes.
pub fn verify_audit(
    tenant: &TenantId,
    entries: &[AuditRecord],
    head: Option<&AuditHead>,
) -> Vec<AuditProblem> {
    let mut chained: Vec<_> =
        entries.iter().filter_map(|entry| entry.seq.map(|seq| (seq, entry))).collect();
    chained.sort_by_key(|(seq, _)| *seq);
    let mut problems = Vec::new();
    let (mut last, mut before) = (0, String::new());
    for (seq, entry) in &chained {
        problems.extend((last + 1..*seq).next().map(AuditProblem::Missing));
        if entry.tenant != *tenant {
            problems.push(AuditProblem::OtherTenant(*seq, entry.tenant.clone()));
        }
        // After a gap the previous hash is unknown, and the gap is reported already.
        let follows_directly = *seq == last + 1;
        let hash = entry.hash.clone().unwrap_or_default();
        if *seq <= last || (follows_directly && hash != entry.hash_after(&before)) {
            problems.push(AuditProblem::Modified(*seq));
        }
        if head.is_some_and(|head| head.seq == *seq && head.hash != hash) {
            problems.push(AuditProblem::OtherHead(*seq));
        }
        (last, before) = (*seq, hash);
    }
    if let Some(head) = head {
        if last < head.seq {
            problems.push(AuditProblem::Truncated { last, head: head.seq });
        }
        let found = i64::try_from(entries.len() - chained.len()).unwrap_or(i64::MAX);
        if found != head.unchained {
            problems.push(AuditProblem::Unchained { found, counted: head.unchained });
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn tenant() -> TenantId {
        TenantId::try_from("acme").expect("a tenant")
    }

    fn log(length: i64) -> (Vec<AuditRecord>, AuditHead) {
        let (mut entries, mut before) = (Vec::new(), String::new());
        for seq in 1..=length {
            let mut entry = AuditRecord {
                id: Uuid::now_v7(),
                tenant: tenant(),
                actor: Some(Uuid::now_v7()),
                action: "key.create".into(),
                object: format!("object {seq}"),
                detail: json!({ "b": [1, { "d": 2, "c": "x" }], "a": seq }),
                request_id: Some("req".into()),
                created_at: 1_000 + seq,
                seq: Some(seq),
                hash: None,
            };
            before = entry.hash_after(&before);
            entry.hash = Some(before.clone());
            entries.push(entry);
        }
        (entries, AuditHead { tenant_id: tenant(), seq: length, hash: before, unchained: 0 })
    }

    #[test]
    fn unchanged_log_passes_in_any_order_and_with_later_entries() {
        let (mut entries, head) = log(5);
        assert_eq!(verify_audit(&tenant(), &entries, Some(&head)), []);
        let earlier =
            AuditHead { seq: 3, hash: entries[2].hash.clone().expect("a hash"), ..head.clone() };
        entries.reverse();
        assert_eq!(verify_audit(&tenant(), &entries, Some(&head)), []);
        assert_eq!(
            verify_audit(&tenant(), &entries, Some(&earlier)),
            [],
            "a head that was saved earlier"
        );
    }

    #[test]
    fn change_of_any_field_is_detected() {
        let changes: [fn(&mut AuditRecord); 9] = [
            |entry| entry.id = Uuid::now_v7(),
            |entry| entry.actor = None,
            |entry| entry.action.push('x'),
            |entry| entry.object.push('x'),
            |entry| entry.detail["b"][1]["c"] = "y".into(),
            |entry| entry.request_id = None,
            |entry| entry.created_at += 1,
            |entry| entry.tenant = TenantId::try_from("other").expect("a tenant"),
            |entry| entry.hash = Some("0".repeat(64)),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let (mut entries, head) = log(3);
            change(&mut entries[1]);
            let problems = verify_audit(&tenant(), &entries, Some(&head));
            assert!(problems.contains(&AuditProblem::Modified(2)), "change {index}: {problems:?}");
        }
        let (mut entries, head) = log(3);
        entries[1].detail = json!({ "a": 2, "b": [1, { "c": "x", "d": 2 }] });
        assert_eq!(
            verify_audit(&tenant(), &entries, Some(&head)),
            [],
            "control: the order of keys is no change"
        );
    }

    #[test]
    fn removal_and_reordering_are_detected_and_truncation_needs_the_head() {
        let (entries, head) = log(5);
        let without = |removed: &[usize]| -> Vec<AuditRecord> {
            let kept = entries.iter().enumerate().filter(|(index, _)| !removed.contains(index));
            kept.map(|(_, entry)| entry.clone()).collect()
        };
        assert_eq!(
            verify_audit(&tenant(), &without(&[1]), Some(&head)),
            [AuditProblem::Missing(2)]
        );
        let truncated = [AuditProblem::Truncated { last: 3, head: 5 }];
        assert_eq!(verify_audit(&tenant(), &without(&[3, 4]), Some(&head)), truncated);
        assert_eq!(
            verify_audit(&tenant(), &without(&[3, 4]), None),
            [],
            "control: without the head it passes"
        );
        assert_eq!(
            verify_audit(&tenant(), &[], Some(&head)),
            [AuditProblem::Truncated { last: 0, head: 5 }]
        );
        let mut swapped = entries.clone();
        (swapped[1].seq, swapped[2].seq) = (Some(3), Some(2));
        let problems = verify_audit(&tenant(), &swapped, Some(&head));
        assert!(problems.contains(&AuditProblem::Modified(2)), "{problems:?}");
    }

    #[test]
    fn recomputed_chain_has_another_head() {
        let (_, head) = log(5);
        let (forged, _) = log(5);
        assert_eq!(verify_audit(&tenant(), &forged, Some(&head)), [AuditProblem::OtherHead(5)]);
        assert_eq!(
            verify_audit(&tenant(), &forged, None),
            [],
            "control: by itself it is consistent"
        );
    }

    #[test]
    fn entries_outside_the_chain_are_counted() {
        let (mut entries, head) = log(2);
        entries.push(AuditRecord { seq: None, hash: None, ..entries[0].clone() });
        let problem = [AuditProblem::Unchained { found: 1, counted: 0 }];
        assert_eq!(verify_audit(&tenant(), &entries, Some(&head)), problem);
        assert_eq!(
            verify_audit(&tenant(), &entries, Some(&AuditHead { unchained: 1, ..head })),
            []
        );
    }
}
