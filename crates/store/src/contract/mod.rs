//! What every backend must do, as tests: a backend is done when `store_contract!` passes on it.
//!
//! The cases name the invariants of the store as sentences. `model.rs` compares random histories
//! with a plain map; `subject.rs` has the words the cases are written in.

pub mod commits;
pub mod epochs;
pub mod history;
pub mod limits;
pub mod model;
pub mod reads;
mod subject;
pub mod thinning;
pub mod watches;

pub use subject::{Harness, Numbers, Subject, TestEnvironment, bytes, key};

/// One test per case, on the subject that an async function makes.
#[macro_export]
macro_rules! store_contract {
    ($subject:path) => {
        $crate::store_contract! { @ $subject;
            commits {
                a_created_key_can_be_read
                creating_gives_the_key_its_first_revision
                an_update_keeps_the_revision_of_creation
                a_deleted_key_is_absent
                a_key_created_again_starts_a_new_life
                creating_what_exists_is_a_conflict_that_names_its_revision
                an_update_at_an_old_revision_is_a_conflict
                an_update_of_an_absent_key_is_a_conflict
                a_delete_at_an_old_revision_is_a_conflict
                a_delete_of_an_absent_key_is_a_conflict
                an_update_at_a_revision_of_a_former_life_is_a_conflict
                a_conflict_changes_nothing
                a_conflict_takes_no_visible_revision
                several_keys_change_in_one_revision
                one_conflict_among_several_keys_writes_none
                create_update_and_delete_go_together
                a_kept_key_is_only_compared
                a_kept_key_that_moved_stops_the_commit
                a_key_kept_absent_must_be_absent
                revisions_grow_with_every_commit
                an_unchanged_value_is_still_a_new_revision
                values_are_any_bytes
                an_empty_value_is_not_an_absent_key
                of_racing_creates_exactly_one_wins
                of_racing_updates_exactly_one_wins
                of_racing_deletes_exactly_one_wins
                a_counter_under_contention_loses_no_increment
                concurrent_commits_have_revisions_of_their_own
                a_commit_begun_after_an_answer_has_a_larger_revision
                pairs_written_together_are_never_seen_apart
                transfers_keep_the_sum
                a_dropped_caller_leaves_a_whole_write_or_none
                the_state_survives_reopening
                revisions_go_on_growing_after_reopening
                preconditions_hold_after_reopening
                provenance_is_kept_with_the_commit
                provenance_survives_reopening
                a_closed_store_refuses_commits
                a_store_with_nothing_written_can_be_reopened
            }
            epochs {
                a_first_epoch_is_accepted
                the_same_epoch_goes_on
                a_newer_epoch_takes_over
                an_older_epoch_is_fenced
                a_fenced_commit_writes_nothing
                groups_are_fenced_apart
                commits_without_an_epoch_are_not_fenced
                a_conflicting_commit_does_not_raise_the_epoch
                epochs_survive_reopening
                of_two_leaders_the_newer_wins_whoever_is_faster
                a_fenced_commit_says_who_is_current
            }
            limits {
                a_commit_without_operations_is_refused
                a_commit_that_only_compares_is_refused
                a_key_named_twice_is_refused
                deleting_what_must_be_absent_is_refused
                the_largest_value_is_stored
                the_largest_value_can_replace_the_largest
                a_larger_value_is_refused
                values_that_are_too_large_together_are_refused
                as_many_operations_as_allowed_are_one_commit
                more_operations_are_refused
                the_longest_key_is_stored
                keys_are_bytes_not_words
                keys_may_contain_wildcards_and_quotes
                keys_may_end_in_a_zero_byte
                keys_may_be_in_any_script
                a_provenance_that_is_too_long_is_refused
                an_epoch_without_a_group_is_refused
                a_refused_commit_leaves_nothing
            }
            reads {
                an_absent_key_is_none
                a_key_is_read_as_it_was
                a_key_did_not_exist_before_it_was_created
                a_key_does_not_exist_after_it_was_deleted
                an_empty_store_lists_nothing
                a_list_is_in_key_order
                a_list_holds_its_range_only
                a_prefix_ends_where_the_next_begins
                a_list_names_its_revision
                a_list_is_not_older_than_an_acknowledged_write
                a_limit_cuts_the_list_and_says_what_remains
                pages_together_are_the_list
                a_page_that_ends_exactly_at_the_end_is_the_last
                pages_stay_at_their_revision_while_writes_go_on
                pages_stay_at_their_revision_while_keys_are_deleted
                a_list_of_the_past_is_what_it_was
                a_list_of_the_past_sees_deleted_keys_and_not_later_ones
                a_list_at_the_newest_revision_is_the_live_list
                a_list_before_the_first_write_is_empty
                a_revision_that_does_not_exist_yet_is_refused
                a_page_after_a_key_that_is_gone_goes_on_behind_it
                every_past_state_can_be_read
                every_past_state_can_be_read_after_reopening
                two_thousand_keys_are_listed_whole
                remaining_is_right_in_the_past_too
            }
            watches {
                a_watch_from_the_beginning_replays_everything
                a_watch_from_now_sees_what_comes
                a_watch_replays_then_follows
                a_watch_sees_its_range_only
                a_commit_of_several_keys_comes_as_one
                a_commit_half_in_range_comes_in_half
                a_creation_has_no_previous
                an_update_carries_the_previous_entry
                a_deletion_carries_the_last_entry
                a_former_life_is_not_the_previous_of_a_creation
                a_watch_carries_provenance
                a_watch_from_a_future_revision_waits_for_it
                revisions_never_go_back_in_a_watch
                two_watches_see_the_same
                waiting_for_the_next_can_be_given_up
                the_position_follows_what_was_delivered
                the_position_passes_what_does_not_match
                the_position_never_goes_back
                a_watch_can_be_resumed_at_every_revision
                a_watch_can_be_resumed_after_reopening
                a_list_and_a_watch_from_it_are_the_state
                a_watch_begun_under_load_misses_nothing
                a_watch_behind_a_compaction_ends
                a_watch_up_to_date_survives_a_compaction
                a_watch_from_a_compacted_revision_is_refused
                the_change_at_the_compacted_revision_is_still_delivered
                a_deletion_at_the_compacted_revision_still_has_its_entry
                a_slow_watcher_holds_nobody_up
                a_slow_watcher_is_ended_or_served_whole
                a_hundred_watchers_see_every_change_of_a_burst
                a_watch_ends_when_the_store_is_closed
                watch_compact_and_reconnect_never_lose_a_change
            }
            history {
                changes_between_two_revisions
                changes_bounds_are_after_and_up_to
                changes_of_a_range
                changes_of_an_empty_stretch
                changes_tell_what_was_before
                changes_of_the_future_are_refused
                a_compacted_revision_cannot_be_read
                a_compacted_revision_cannot_be_listed
                compacted_changes_are_refused
                the_state_at_the_compacted_revision_is_unchanged
                live_keys_survive_compaction_unchanged
                compacting_backwards_does_nothing
                compacting_the_future_is_refused
                compaction_survives_reopening
                a_page_cannot_go_on_after_compaction
                compaction_of_a_deleted_key_leaves_it_absent
                compacting_to_the_newest_keeps_the_live_state
                compaction_again_and_again
                history_older_than_memory_is_read
                history_older_than_memory_is_listed_in_pages
                changes_older_than_memory_are_whole
                a_watch_starts_before_what_is_in_memory
                history_older_than_memory_survives_reopening
                a_long_history_is_given_in_stretches
            }
            thinning {
                of_old_churn_the_last_of_each_interval_is_left
                a_change_after_churn_that_has_gone_tells_of_what_is_left
                what_is_not_churn_stays_readable_at_every_revision
                no_read_of_the_past_shows_what_came_later
                the_live_state_and_its_preconditions_are_as_before
                a_watch_over_churn_that_has_gone_has_no_gap
                young_churn_stays
                reads_while_churn_goes_are_right
            }
            model {
                a_random_history_equals_a_plain_map
                a_random_history_with_little_memory_equals_a_plain_map
                concurrent_clients_see_one_order
            }
        }
    };
    (@ $subject:path; $($file:ident { $($case:ident)+ })+) => {
        $(mod $file {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let subject = $subject().await;
                ::store::contract::$file::$case(&subject).await;
                subject.finish().await;
            })+
        })+

        #[test]
        fn every_case_of_the_contract_is_run() {
            let listed = [$($(concat!(stringify!($file), "::", stringify!($case))),+),+];
            ::store::contract::expect_complete(&listed);
        }
    };
}

/// Compares the listed cases with those that are written.
pub fn expect_complete(listed: &[&str]) {
    let files = [
        ("commits", include_str!("commits.rs")),
        ("epochs", include_str!("epochs.rs")),
        ("limits", include_str!("limits.rs")),
        ("reads", include_str!("reads.rs")),
        ("watches", include_str!("watches.rs")),
        ("history", include_str!("history.rs")),
        ("thinning", include_str!("thinning.rs")),
        ("model", include_str!("model.rs")),
    ];
    let written: Vec<String> = files
        .iter()
        .flat_map(|(file, text)| {
            let cases = text.lines().filter_map(|line| line.strip_prefix("pub async fn "));
            cases
                .filter_map(|line| line.split_once('('))
                .map(move |(case, _)| format!("{file}::{case}"))
        })
        .collect();
    let missing: Vec<_> = written.iter().filter(|case| !listed.contains(&case.as_str())).collect();
    assert!(missing.is_empty(), "written but not listed in store_contract!: {missing:?}");
    assert!(listed.len() >= 120, "the contract has {} cases", listed.len());
}
