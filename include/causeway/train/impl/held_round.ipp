// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_HELD_ROUND_IPP
#define CAUSEWAY_TRAIN_IMPL_HELD_ROUND_IPP

#include <causeway/train/held_round.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI {

CAUSEWAY_DECL std::unique_ptr<spare_round> spare_round::load(membership::round_store& store, std::uint64_t round,
                                                             std::uint64_t hash, std::span<const std::span<std::byte>> like,
                                                             thread_pool* pool) {
  auto copy = std::make_unique<spare_round>();
  copy->round = round;
  std::vector<std::span<std::byte>> parts;
  for (const auto part : like) parts.emplace_back(copy->memory.emplace_back(part.size()));
  if (!store.load(round, hash, parts)) return nullptr;
  for (const auto part : parts) copy->image.add(part);
  return copy->image.root(pool) == hash ? std::move(copy) : nullptr;
}

CAUSEWAY_DECL held_samples::held_samples(net::peer_id self) : self_{self} {}

CAUSEWAY_DECL void held_samples::follow(const membership::commit_record& record) {
  if (!as_of_.fits(record)) return;
  membership::ledger after = as_of_;
  after.apply(record);
  if (after.hash() == record.ledger) as_of_ = std::move(after);
}

CAUSEWAY_DECL bool held_samples::still_ours(const membership::ledger& newest, std::uint64_t count) const {
  return membership::still_held(as_of_, newest, self_, count) == count;
}

CAUSEWAY_DECL std::vector<std::uint64_t> held_samples::draw(const membership::ledger& newest, std::uint64_t skipped,
                                                            std::uint64_t count) {
  if (drawn_.size() > skipped) drawn_.erase(drawn_.begin(), drawn_.end() - static_cast<std::ptrdiff_t>(skipped));
  auto numbers = as_of_.take(self_, skipped, count);
  if (!still_ours(newest, skipped + numbers.size())) return {};
  drawn_.insert(drawn_.end(), numbers.begin(), numbers.end());
  return numbers;
}

}}  // namespace causeway::CAUSEWAY_ABI

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

CAUSEWAY_DECL held_round::held_round(member_control& control, member_waits& waits, const member_options& options,
                                     log_sink log, io::any_storage storage, net::peer_id self)
    : control_{&control},
      waits_{&waits},
      options_{&options},
      log_{std::move(log)},
      store_{std::move(storage), options.folder + "/rounds"},
      samples_{self} {}

CAUSEWAY_DECL void held_round::begin(shared_state state, thread_pool& pool) {
  state_ = std::move(state);
  pool_ = &pool;
  for (const auto part : state_.parts) image_.add(part);
}

CAUSEWAY_DECL void held_round::hold(const membership::commit_record& record,
                                    const std::optional<membership::ledger>& samples) {
  record_ = record;
  const auto mean = mean_of_ == record.round && !record.contributions.empty() ? std::exchange(mean_, nullptr) : nullptr;
  waits_->locked([&] {
    if (mean || record.contributions.empty()) control_->add_mean(record.round, mean);
    if (samples) {
      samples_.begin_round(*samples);
    } else if (control_->now_what().newest.round == record_.round) {
      samples_.begin_round(control_->ledger());
    } else {
      samples_.follow(record_);
    }
    control_->journal().held(record_);
    if (spare_ && spare_->round <= record_.round) control_->withdraw_spare(spare_->round);
    control_->offer(record_.round, image_);
  });
  if (spare_ && spare_->round <= record_.round) spare_.reset();
}

CAUSEWAY_DECL std::uint64_t held_round::hash() {
  image_.touch();
  return image_.root(pool_);
}

CAUSEWAY_DECL std::vector<float> held_round::parameters() const {
  const auto first = state_.parts.front();
  std::vector<float> values(first.size() / sizeof(float));
  std::copy(first.begin(), first.end(), std::as_writable_bytes(std::span{values}).begin());
  return values;
}

CAUSEWAY_DECL result<void> held_round::store(std::uint64_t round, std::uint64_t root) {
  if (options_->store_every == 0 || round % options_->store_every != 0) return {};
  std::vector<std::byte> record;
  waits_->locked([&] { record = control_->record_of(round, root); });
  return store_.save(options_->protocol.run, round, root, state_.parts, record, state_.own);
}

CAUSEWAY_DECL std::optional<member_control::named_round> held_round::load_stored() {
  const auto committed = control_->remembered();
  const auto vote = control_->voted_for();
  if (vote) load_spare(*vote);
  if (!committed || !from_disk(committed->round, committed->hash, false)) return std::nullopt;
  state_.adopted({});
  return committed;
}

CAUSEWAY_DECL bool held_round::from_disk(std::uint64_t round, std::uint64_t hash, bool keep) {
  const auto own = keep ? std::span<const std::span<std::byte>>{} : std::span<const std::span<std::byte>>{state_.own};
  const auto loaded = store_.load(round, hash, state_.parts, own);
  if (loaded) return this->hash() == hash;
  if (loaded.error().code == errc::corrupt)
    log_(severity::warning, "passing over a stored round: " + loaded.error().text());
  return false;
}

CAUSEWAY_DECL void held_round::load_spare(const member_control::named_round& vote) {
  spare_ = spare_round::load(store_, vote.round, vote.hash, state_.parts, pool_);
  if (spare_) waits_->locked([&] { control_->offer_spare(spare_->round, spare_->image); });
}

CAUSEWAY_DECL std::shared_ptr<const membership::kept_bytes> held_round::copy_for_others() {
  bool wanted = false;
  waits_->locked([&] { wanted = control_->needs_copy(); });
  return wanted ? membership::kept_bytes::copy_of(image_) : nullptr;
}

CAUSEWAY_DECL void held_round::keep_mean(std::span<const float> mean, std::uint64_t round) {
  bool wanted = false;
  waits_->locked([&] { wanted = control_->keeps_means(); });
  mean_.reset();
  if (!wanted || mean.size_bytes() != state_.parts.front().size()) return;
  std::vector<float> row(mean.begin(), mean.end());
  membership::state_image image;
  image.add(std::as_writable_bytes(std::span{row}));
  (void)image.root(pool_);
  mean_ = membership::kept_bytes::copy_of(image);
  mean_of_ = round;
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_IMPL_HELD_ROUND_IPP
