//! Reads lists that are longer than one page.

use anyhow::Result;
use clap::Args;
use client::{ClientError, Listing, PageSelector};
use serde_json::value::RawValue;

use crate::output::note;

/// The largest page that the server returns.
const MAX_PAGE_SIZE: u32 = 200;

#[derive(Args, Clone, Copy)]
pub(crate) struct ListArgs {
    /// Maximum number of rows to print.
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
    /// Print all rows.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl ListArgs {
    pub(crate) fn all() -> ListArgs {
        ListArgs { limit: 0, all: true }
    }
}

/// The rows of all pages together.
pub(super) struct Rows<T> {
    pub items: Vec<T>,
    pub raw: Vec<Box<RawValue>>,
}

/// Follows the cursors until the requested number of rows is complete.
pub(super) async fn collect<T>(
    args: ListArgs,
    fetch: impl AsyncFn(PageSelector) -> Result<Listing<T>, ClientError>,
) -> Result<Rows<T>> {
    let max_rows = if args.all { usize::MAX } else { args.limit };
    let mut rows = Rows { items: Vec::new(), raw: Vec::new() };
    let mut cursor: Option<String> = None;
    loop {
        let missing =
            u32::try_from(max_rows.saturating_sub(rows.items.len())).unwrap_or(MAX_PAGE_SIZE);
        if missing == 0 {
            break;
        }
        let page =
            fetch(PageSelector { limit: Some(missing.min(MAX_PAGE_SIZE)), cursor: cursor.clone() })
                .await?;
        rows.items.extend(page.items);
        rows.raw.extend(page.raw);
        // A page may be short or even empty, because a restricted key cannot see every row; the next
        // page still follows. A cursor that does not change would make this an endless loop.
        if page.next.is_none() || page.next == cursor {
            cursor = None;
            break;
        }
        cursor = page.next;
    }
    if cursor.is_some() {
        note("there are more rows; use --all or a larger --limit");
    }
    rows.items.truncate(max_rows);
    rows.raw.truncate(max_rows);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves the numbers from 0 to 449 in pages, an empty page among them.
    async fn fetch(page: PageSelector) -> Result<Listing<u32>, ClientError> {
        let start: u32 = page.cursor.as_deref().unwrap_or("0").parse().expect("our own cursor");
        let limit = page.limit.expect("a limit");
        assert!(limit <= MAX_PAGE_SIZE);
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
    async fn a_cursor_that_does_not_change_ends_the_list() {
        let stuck = async |_: PageSelector| {
            Ok(Listing { items: vec![1], raw: vec![], next: Some("same".into()) })
        };
        let rows = collect(ListArgs { limit: 0, all: true }, stuck).await.expect("rows");
        assert_eq!(rows.items.len(), 2);
    }
}
