// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_FETCHER_IPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_FETCHER_IPP

#include <causeway/membership/transfer/transfer_fetcher.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL fetcher::fetcher(const transfer_options& options, transfer_effects& fx)
    : options_{options}, fx_{&fx}, holders_{options} {}

CAUSEWAY_DECL void fetcher::forget() {
  if (status_ != status::running && status_ != status::complete) staged_ = {};
}

CAUSEWAY_DECL result<void> fetcher::commit(state_image& image, thread_pool* pool) {
  CAUSEWAY_EXPECT(status_ == status::complete);
  status_ = status::idle;
  return staged_.commit(image, goal_.root, pool);
}

CAUSEWAY_DECL void fetcher::send(net::peer_id to, transfer_kind kind, std::uint64_t index) {
  fx_->transfer_send(to, encode(transfer_message{.kind = kind, .what = goal_, .index = index}));
}

CAUSEWAY_DECL void fetcher::fail_with(error why) {
  failure_ = std::move(why);
  finish(status::failed);
}

// ---- the caller ----------------------------------------------------------------------------------------------------

CAUSEWAY_DECL void fetcher::start(const state_name& goal, std::span<const net::peer_id> peers, const state_image& local,
                                  time_point now) {
  stop();
  goal_ = goal;
  local_ = &local;
  if (staged_root_ != goal.root || staged_.layout() != local.layout()) staged_ = staging{local.layout()};
  staged_root_ = goal.root;
  manifest_ = manifest_assembler{local.layout(), goal.root};
  manifest_from_ = 0;
  plan_.reset();
  newest_seen_ = 0;
  nobody_since_.reset();
  counts_ = {};
  arrivals_.clear();
  holders_.begin_anew();
  if (local.root() == goal.root) return finish(status::complete);
  status_ = status::running;
  holders(peers, now);
}

CAUSEWAY_DECL void fetcher::holders(std::span<const net::peer_id> peers, time_point now) {
  if (status_ != status::running) return;
  for (auto& [id, h] : holders_) {
    const bool still = std::find(peers.begin(), peers.end(), id) != peers.end();
    if (h.listed && !still) part_with(h);
    h.listed = still;
  }
  for (const net::peer_id id : peers) holders_.known(id).listed = true;
  proceed(now);
}

CAUSEWAY_DECL void fetcher::stop() {
  if (status_ == status::running) finish(status::idle);
  status_ = status::idle;
}

CAUSEWAY_DECL fetch_progress fetcher::progress() const {
  fetch_progress p = counts_;
  for (const auto& [id, h] : holders_) {
    if (h.listed) p.holders.push_back({id, h.bytes, h.banned, h.gone});
  }
  return p;
}

// ---- holders -------------------------------------------------------------------------------------------------------

CAUSEWAY_DECL void fetcher::peer_up(net::peer_id peer, time_point now) {
  holders_.known(peer).up = true;
  proceed(now);
}

CAUSEWAY_DECL void fetcher::peer_down(net::peer_id peer, time_point now) {
  holder* h = holders_.find(peer);
  if (h == nullptr) return;
  release_all(*h);
  h->disconnected();
  if (!h->listed) holders_.erase(peer);
  proceed(now);
}

// Nothing is waited for here any more; what was, is free for others.
CAUSEWAY_DECL void fetcher::release_all(holder& h) {
  for (auto& [key, r] : h.asked) {
    const bool counted = r.at == standing::active && (key & manifest_bit) == 0;
    h.forget(key);
    if (counted && plan_) plan_->given_up(key);
  }
  if (manifest_from_ == h.id) manifest_from_ = 0;
}

CAUSEWAY_DECL void fetcher::part_with(holder& h) {
  if (h.up && h.waited_for()) send(h.id, transfer_kind::cancel, every_index);
  release_all(h);
}

CAUSEWAY_DECL void fetcher::punish(holder& h, const std::string& what) {
  ++counts_.bad;
  if (++h.bad < options_.max_bad) return;
  h.banned = true;
  part_with(h);
  fx_->transfer_log(severity::warning,
                    "state transfer: peer " + std::to_string(h.id) + " sent " + what + "; it is asked no more");
}

// What it was asked for may be asked elsewhere, and is welcome from it all the same.
CAUSEWAY_DECL void fetcher::declare_overdue(holder& h, time_point now) {
  ++counts_.overdue;
  ++h.overdue;
  h.pace.overdue(now - h.waiting_since);
  h.waiting_since = now;
  h.active = 0;
  for (auto& [key, r] : h.asked) {
    const bool was_active = r.at == standing::active;
    if (r.at != standing::lost) r.at = was_active ? standing::late : standing::lost;
    if (was_active && plan_ && (key & manifest_bit) == 0) plan_->given_up(key);
  }
  // Alone it would be asked again for what it is sending; where there are others, it had better send nothing more.
  const bool others = holders_.any_other_usable(h, now, [&](const holder& o) { return o.overdue < h.overdue; });
  if (others) send(h.id, transfer_kind::cancel, every_index);
  if (others && manifest_from_ == h.id) manifest_from_ = 0;
  fx_->transfer_log(severity::info, "state transfer: peer " + std::to_string(h.id) + " is silent");
}

// ---- messages ------------------------------------------------------------------------------------------------------

CAUSEWAY_DECL void fetcher::message(net::peer_id from, const transfer_message& m, time_point now) {
  const bool chunk = m.kind == transfer_kind::chunk || m.kind == transfer_kind::packed_chunk;
  if (m.kind != transfer_kind::manifest && !chunk && m.kind != transfer_kind::gone) return;
  if (m.kind != transfer_kind::gone) {
    fx_->transfer_send(from, encode(transfer_message{.kind = transfer_kind::receipt, .ticket = m.ticket}));
  }
  holder* h = holders_.find(from);
  if (status_ != status::running || h == nullptr || !h->listed || h->banned || m.what != goal_) {
    ++counts_.unasked;
    counts_.bytes_wasted += m.content.size();
    return;
  }
  switch (m.kind) {
    case transfer_kind::manifest: take_manifest(*h, m, now); break;
    case transfer_kind::chunk:
    case transfer_kind::packed_chunk: take_chunk(*h, m, now); break;
    default: take_gone(*h, m, now); break;
  }
  proceed(now);
}

CAUSEWAY_DECL void fetcher::ask(holder& h, std::uint64_t key, time_point now) {
  h.note_asked(key, ++serial_, now);
  const bool manifest = (key & manifest_bit) != 0;
  send(h.id, manifest ? transfer_kind::ask_manifest : transfer_kind::ask_chunk, key & ~manifest_bit);
}

CAUSEWAY_DECL void fetcher::take_manifest(holder& h, const transfer_message& m, time_point now) {
  const bool asked = m.index < manifest_bit && h.note_answer(m.index | manifest_bit, now).has_value();
  if (!asked) ++counts_.unasked;
  if (!asked || plan_ || h.id != manifest_from_ || m.index != manifest_.next_piece()) {
    counts_.bytes_wasted += m.content.size();
    return;
  }
  switch (manifest_.take(m.content)) {
    case manifest_assembler::outcome::more: break;
    case manifest_assembler::outcome::complete: make_plan(); break;
    case manifest_assembler::outcome::foreign: fail_with(manifest_.foreign_layout().error()); break;
    case manifest_assembler::outcome::bad:
      counts_.bytes_wasted += m.content.size();
      manifest_from_ = 0;
      punish(h, "a manifest that is not of the wanted state");
      break;
  }
}

CAUSEWAY_DECL void fetcher::make_plan() {
  plan_.emplace(local_->hashes(), manifest_.hashes());
  for (std::size_t i = 0; i < local_->chunks(); ++i) {
    if (!plan_->is_missing(i)) continue;
    counts_.bytes_total += local_->chunk_size(i);
    if (!staged_.has(i)) continue;  // from a fetch that was ended
    counts_.bytes_done += local_->chunk_size(i);
    plan_->done(i);
  }
  if (plan_->missing() == 0) finish(status::complete);
}

CAUSEWAY_DECL void fetcher::take_chunk(holder& h, const transfer_message& m, time_point now) {
  const auto r = m.index < manifest_bit ? h.note_answer(m.index, now) : std::nullopt;
  if (!r || !plan_) {
    ++counts_.unasked;
    counts_.bytes_wasted += m.content.size();
    return;
  }
  holders_.observe(r->gap);
  if (!plan_->is_missing(m.index)) {
    counts_.bytes_wasted += m.content.size();
  } else if (const auto bytes = content_of(m); bytes.empty()) {
    counts_.bytes_wasted += m.content.size();
    h.bad_chunks.push_back(m.index);
    punish(h, "chunks with wrong bytes");
  } else {
    staged_.put(static_cast<std::size_t>(m.index), bytes);
    plan_->done(m.index);
    h.bytes += bytes.size();
    counts_.bytes_done += bytes.size();
    note_rate(bytes.size(), now);
    for (auto& [id, other] : holders_) {  // who else was asked need not send it
      if (!other.expects(m.index)) continue;
      send(id, transfer_kind::cancel, m.index);
      other.forget(m.index);
    }
  }
  if (r->active) plan_->given_up(m.index);
  if (plan_->missing() == 0) finish(status::complete);
}

CAUSEWAY_DECL std::span<const std::byte> fetcher::content_of(const transfer_message& m) {
  const auto at = static_cast<std::size_t>(m.index);
  std::span<const std::byte> bytes = m.content;
  if (m.kind == transfer_kind::packed_chunk) {
    unpacked_.resize(local_->chunk_size(at));
    if (!net::unpack_floats(m.content, unpacked_)) return {};
    bytes = unpacked_;
  }
  const bool right = bytes.size() == local_->chunk_size(at) && hash_bytes(bytes) == manifest_.hashes()[at];
  return right ? bytes : std::span<const std::byte>{};
}

CAUSEWAY_DECL void fetcher::note_rate(std::size_t bytes, time_point now) {
  arrivals_.emplace_back(now, bytes);
  if (arrivals_.size() <= 8) return;
  const double took = seconds(now - arrivals_.front().first);
  arrivals_.pop_front();
  std::size_t sum = 0;
  for (const auto& [when, size] : arrivals_) sum += size;
  if (took > 0) counts_.bytes_per_s = std::max(counts_.bytes_per_s, static_cast<double>(sum) / took);
}

CAUSEWAY_DECL void fetcher::take_gone(holder& h, const transfer_message& m, time_point now) {
  newest_seen_ = std::max(newest_seen_, m.newest);
  if (!h.waited_for()) return void(++counts_.unasked);
  release_all(h);
  h.asked.clear();
  // A holder that has not come so far yet, or is just changing its state, may have it in a moment.
  const bool mean = (goal_.round & mean_bit) != 0;  // who keeps it no longer will never have it again
  h.gone = mean || m.newest > goal_.round || h.retries >= options_.max_retries;
  if (!h.gone) h.not_before = now + options_.retry * (1U << h.retries++);
}

// ---- what to do next -----------------------------------------------------------------------------------------------

CAUSEWAY_DECL void fetcher::wake(time_point now) {
  wakes_at_ = no_deadline;
  if (status_ != status::running) return;
  for (auto& [id, h] : holders_) {
    if (h.eligible() && h.up && h.waited_for() && now >= holders_.deadline(h)) declare_overdue(h, now);
  }
  proceed(now);
}

CAUSEWAY_DECL void fetcher::proceed(time_point now) {
  if (status_ != status::running || !still_possible(now)) return;
  if (!plan_) {
    ask_for_manifest(now);
  } else {
    for (auto& [id, h] : holders_) {
      if (h.usable(now)) fill_window(h, now);
    }
  }
  set_wake(now);
}

CAUSEWAY_DECL bool fetcher::still_possible(time_point now) {
  const auto outlook = holders_.outlook();
  if (outlook.within_reach) nobody_since_.reset();
  if (!outlook.within_reach && !nobody_since_) nobody_since_ = now;
  if (!outlook.eligible || (!outlook.within_reach && now >= *nobody_since_ + options_.lost_after)) {
    fail_with(holders_.none_left(goal_.round, newest_seen_));
  } else if (outlook.within_reach && !outlook.answers) {
    fail_with(fail(errc::timeout, "state transfer",
                   "no holder of round " + std::to_string(goal_.round) +
                       " answers, though connections stand; the lines are too slow or the peers hang"));
  }
  return status_ == status::running;
}

CAUSEWAY_DECL void fetcher::ask_for_manifest(time_point now) {
  holder* current = holders_.find(manifest_from_);
  if (current == nullptr || !current->usable(now)) {
    current = holders_.best(now);
    if (current == nullptr) return;
    manifest_from_ = current->id;
    manifest_.restart();
  }
  for (std::uint64_t piece = manifest_.next_piece(); piece < manifest_.ask_before(); ++piece) {
    if (!current->expects(piece | manifest_bit)) ask(*current, piece | manifest_bit, now);
  }
}

CAUSEWAY_DECL void fetcher::fill_window(holder& h, time_point now) {
  const auto suits = [&](std::uint64_t chunk) {
    if (h.expects(chunk)) return false;
    return !h.gave_bad(chunk) || !holders_.any_other_usable(h, now, [&](const holder& o) { return !o.gave_bad(chunk); });
  };
  while (h.active < h.pace.window()) {
    auto chunk = plan_->take(suits);
    if (!chunk) chunk = holders_.worth_asking_twice(h, *plan_, now);
    if (!chunk) return;
    plan_->asked(*chunk);
    ask(h, *chunk, now);
  }
}

CAUSEWAY_DECL void fetcher::set_wake(time_point now) {
  time_point next = holders_.next_deadline(now);
  if (nobody_since_) next = std::min(next, *nobody_since_ + options_.lost_after);
  if (next == wakes_at_) return;
  wakes_at_ = next;
  fx_->transfer_wake_at(next);
}

CAUSEWAY_DECL void fetcher::finish(status how) {
  if (status_ == status::running) {
    for (auto& [id, h] : holders_) part_with(h);
  }
  status_ = how;
  if (wakes_at_ == no_deadline) return;
  wakes_at_ = no_deadline;
  fx_->transfer_wake_at(no_deadline);
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_FETCHER_IPP
