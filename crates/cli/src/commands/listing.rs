//! Lists longer than one page.

use anyhow::Result;
use clap::Args;
use client::{ClientError, Listing, PageSelector};
use serde_json::value::RawValue;

use crate::output::note;

/// The server's largest page.
const LARGEST_PAGE: u32 = 200;

#[derive(Args, Clone, Copy)]
pub struct ListArgs {
    /// How many rows to print at most.
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
    /// Print every row there is.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl ListArgs {
    pub fn all() -> ListArgs {
        ListArgs { limit: 0, all: true }
    }
}

/// The rows of all pages together.
pub struct Rows<T> {
    pub items: Vec<T>,
    pub raw: Vec<Box<RawValue>>,
}

/// Follows the cursors until the wanted number is there.
pub async fn collect<T>(
    args: ListArgs,
    fetch: impl AsyncFn(PageSelector) -> Result<Listing<T>, ClientError>,
) -> Result<Rows<T>> {
    let wanted = if args.all { usize::MAX } else { args.limit };
    let mut rows = Rows { items: Vec::new(), raw: Vec::new() };
    let mut cursor: Option<String> = None;
    loop {
        let missing =
            u32::try_from(wanted.saturating_sub(rows.items.len())).unwrap_or(LARGEST_PAGE);
        if missing == 0 {
            break;
        }
        let page =
            fetch(PageSelector { limit: Some(missing.min(LARGEST_PAGE)), cursor: cursor.clone() })
                .await?;
        rows.items.extend(page.items);
        rows.raw.extend(page.raw);
        // A page may be short or even empty, because a limited key does not see every row; the next
        // one still follows. A cursor that does not move, though, would keep us here for ever.
        if page.next.is_none() || page.next == cursor {
            cursor = None;
            break;
        }
        cursor = page.next;
    }
    if cursor.is_some() {
        note("there is more; use --all, or a larger --limit");
    }
    rows.items.truncate(wanted);
    rows.raw.truncate(wanted);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves the numbers from 0 to 449 in pages, an empty page among them.
    async fn fetch(page: PageSelector) -> Result<Listing<u32>, ClientError> {
        let start: u32 = page.cursor.as_deref().unwrap_or("0").parse().expect("our own cursor");
        let limit = page.limit.expect("a limit");
        assert!(limit <= LARGEST_PAGE);
        let end = if start == 200 { start } else { (start + limit).min(450) };
        let items: Vec<u32> = (start..end).collect();
        let raw = items
            .iter()
            .map(|item| RawValue::from_string(item.to_string()).expect("a number"))
            .collect();
        let next = if start == 200 { 201 } else { end };
        Ok(Listing { items, raw, next: (next < 450).then(|| next.to_string()) })
    }

    #[tokio::test]
    async fn pages_are_joined_up_to_the_limit() {
        for (limit, all, expected) in
            [(50, false, 50), (200, false, 200), (201, false, 201), (0, true, 449), (0, false, 0)]
        {
            let rows = collect(ListArgs { limit, all }, fetch).await.expect("rows");
            assert_eq!((rows.items.len(), rows.raw.len()), (expected, expected), "{limit} {all}");
            assert!(rows.items.is_sorted());
        }
    }

    #[tokio::test]
    async fn a_cursor_that_does_not_move_ends_the_list() {
        let stuck = async |_: PageSelector| {
            Ok(Listing { items: vec![1], raw: vec![], next: Some("same".into()) })
        };
        let rows = collect(ListArgs { limit: 0, all: true }, stuck).await.expect("rows");
        assert_eq!(rows.items.len(), 2);
    }
}
