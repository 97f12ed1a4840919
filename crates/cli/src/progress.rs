//! Progress bars and spinners. indicatif draws them on standard error, only if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar for bytes. Clones share its position.
pub(crate) fn byte_bar(label: &str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total).with_message(label.to_owned());
    let style =
        ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}");
    bar.set_style(style.expect("the template is a constant and well-formed"));
    bar
}

/// A spinner with the elapsed time. Dropping the value removes it.
pub(crate) fn spinner(label: &str) -> Spinner {
    let bar = ProgressBar::new_spinner().with_message(label.to_owned());
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    bar.set_style(style.expect("the template is a constant and well-formed"));
    bar.enable_steady_tick(Duration::from_millis(100));
    Spinner(bar)
}

pub(crate) struct Spinner(ProgressBar);

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
