// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_STATE_FETCH_IPP
#define CAUSEWAY_TRAIN_IMPL_STATE_FETCH_IPP

#include <causeway/train/state_fetch.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

CAUSEWAY_DECL state_fetch::state_fetch(member_control& control, member_waits& waits, const member_options& options,
                                       log_sink log)
    : control_{&control}, waits_{&waits}, options_{&options}, log_{std::move(log)} {}

CAUSEWAY_DECL void state_fetch::into(shared_state& state, membership::state_image& image, thread_pool* pool) {
  state_ = &state;
  image_ = &image;
  pool_ = pool;
}

CAUSEWAY_DECL result<void> state_fetch::wait_for_time(unsigned in_vain) {
  const duration needs = takes(image_->bytes());
  const time_point give_up = waits_->time_now() + (needs + heartbeats_to_wait * options_->protocol.heartbeat) * in_vain;
  bool over = false;
  while (!over && waits_->time_now() < give_up) {
    waits_->locked([&] { control_->ask_for_time({needs}); });
    if (state_->awaited && waits_->is_inside()) return {};
    const auto answered = [&] {
      const bool last = control_->ledger().complete();  // no round follows that it could miss: nobody gives time for it
      return last || control_->time_was_given() || control_->now_what().is != situation::kind::fetch;
    };
    CAUSEWAY_ASSIGN(over, waits_->block_a_while(answered, heartbeats_to_wait * options_->protocol.heartbeat));
    CAUSEWAY_TRY(waits_->give_up_if_alone());
  }
  return {};
}

CAUSEWAY_DECL duration state_fetch::duration_of(double s) {
  return std::chrono::duration_cast<duration>(std::chrono::duration<double>{std::min(s, 1e6)});
}

CAUSEWAY_DECL duration state_fetch::takes(std::uint64_t bytes) const {
  return duration_of(static_cast<double>(bytes) / (bytes_per_s_ > 0 ? bytes_per_s_ : slow_line));
}

CAUSEWAY_DECL void state_fetch::note_rate(time_point begin, std::uint64_t bytes) {
  const double took = seconds(waits_->time_now() - begin);
  if (took > 0 && bytes > 0) bytes_per_s_ = static_cast<double>(bytes) / took;
  most_per_s_ = std::max(most_per_s_, bytes_per_s_);
}

CAUSEWAY_DECL result<bool> state_fetch::receive(std::uint64_t round, std::uint64_t hash, const situation& asked,
                                                bool afresh) {
  const time_point begin = waits_->time_now();
  const bool keep = state_->replay && asked.is == situation::kind::fetch;
  waits_->locked([&] { control_->start_fetch(round, hash, *image_, keep); });
  const auto in_vain = [&](const situation& s) {
    if (s.hash == hash && s.is == asked.is) return false;
    if (s.is != situation::kind::fetch || !control_->kept().kept()) return true;
    return afresh && is_little(control_->fetch().so_far().bytes_done);
  };
  if (keep) ask_meanwhile(round, in_vain);
  CAUSEWAY_ASSIGN(const bool whole, finish_fetch(begin, in_vain));
  if (whole) return true;
  std::optional<error> why;
  waits_->locked([&] {
    if (control_->fetch().state() == membership::fetcher::status::failed) why = control_->fetch().failure();
    control_->stop_fetch();
    control_->kept().end();
  });
  if (!why) return false;
  if (why->code == errc::wrong_model) return *why;
  log_(severity::debug, "the state of round " + std::to_string(round) + " could not be fetched yet: " + why->text());
  CAUSEWAY_TRY(waits_->block_a_while([&] { return control_->now_what().changes != asked.changes; }, retry_fetch));
  CAUSEWAY_TRY(waits_->give_up_if_alone());
  return false;
}

CAUSEWAY_DECL result<void> state_fetch::put() {
  result<void> outcome;
  waits_->locked([&] { outcome = control_->fetch().commit(*image_, pool_); });
  return outcome;
}

CAUSEWAY_DECL result<bool> state_fetch::replay(std::uint64_t round, bool late) {
  CAUSEWAY_ASSIGN(const auto root, root_of_mean(round));
  if (!root || *root == 0) return root.has_value();
  std::vector<float> mean(state_->parts.front().size() / sizeof(float));
  membership::state_image image;
  image.add(std::as_writable_bytes(std::span{mean}));
  (void)image.root(pool_);
  const time_point begin = waits_->time_now();
  waits_->locked([&] { control_->start_mean(round, *root, image); });
  CAUSEWAY_ASSIGN(const bool whole, finish_mean(round, begin, late));
  result<void> put;
  waits_->locked([&] {
    if (whole) put = control_->fetch().commit(image, pool_);
    control_->stop_fetch();
  });
  if (!whole || !put) return false;
  return state_->replay(mean).has_value();
}

CAUSEWAY_DECL result<bool> state_fetch::finish_mean(std::uint64_t round, time_point begin, bool late) {
  for (bool runs = true; runs;) {
    const std::uint64_t newest = waits_->look().newest.round;
    if (late || newest == round) ask_for_time(newest - round, late);
    CAUSEWAY_ASSIGN(const bool whole, finish_fetch(begin, [&](const auto& s) { return s.newest.round != newest; }));
    if (whole) return true;
    waits_->locked([&] { runs = control_->fetch().state() == membership::fetcher::status::running; });
  }
  return false;
}

CAUSEWAY_DECL void state_fetch::ask_for_time(std::uint64_t means, bool late) {
  const std::uint64_t mean = state_->parts.front().size();
  waits_->locked([&] {
    const auto& p = control_->fetch().so_far();
    const std::uint64_t missing = p.bytes_total == 0 ? mean : p.bytes_total - p.bytes_done;
    membership::transfer_need needs{takes(missing + means * mean)};
    if (!late) needs.worth = duration_of(static_cast<double>(mean) / std::max(most_per_s_, slow_line));
    if (needs.takes >= options_->protocol.heartbeat) control_->ask_for_time(needs);
  });
}

CAUSEWAY_DECL result<std::optional<std::uint64_t>> state_fetch::root_of_mean(std::uint64_t round) {
  std::optional<std::uint64_t> root;
  for (int i = 0; i < tries_for_means && !root; ++i) {
    bool kept = false;
    waits_->locked([&] {
      root = control_->kept().root_of(round);
      kept = control_->kept().kept();
      if (!root && kept) control_->kept().ask(round);
    });
    if (root || !kept) break;
    const auto told = [&] { return control_->kept().root_of(round).has_value() || !control_->kept().kept(); };
    CAUSEWAY_TRY(waits_->block_a_while(told, look_around * (1 << i)));
  }
  return root;
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_IMPL_STATE_FETCH_IPP
