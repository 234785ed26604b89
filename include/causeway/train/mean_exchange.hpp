// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_MEAN_EXCHANGE_HPP
#define CAUSEWAY_TRAIN_MEAN_EXCHANGE_HPP

// The mean of a row over all peers of a trainer, by an all-reduce. Where peers come and go rows count by samples, a peer
// whose own row cannot be used says so instead of sending it, and who takes part anew in an exchange that came to its end
// at somebody gets what that came to.

#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/rows.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/round_attendance.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

/// `ctx` is the trainer's context, `attendance` its part in the rounds.
class mean_exchange {
 public:
  /// See training_context::mean.
  template <class Codec>
  result<void> mean(auto& ctx, round_attendance& attendance, const Codec& codec, std::span<float> data, std::uint64_t part,
                    const parallel::row_holders* among, const std::vector<index_range>* where) {
    const bool sound = attendance.can_sit_out();  // or this peer sits out
    if (sound) CAUSEWAY_TRY(keep_finite(ctx, attendance, data));
    CAUSEWAY_TRY(attendance.enter());
    const std::size_t peers = among != nullptr ? among->members.size() : ctx.peers();
    if (peers == 1 && !ctx.result_is_known()) return attendance.exchanged(data, {}, where);
    if (ctx.keeps_inputs() && !sound) kept_.assign(data.begin(), data.end());
    auto outcome = weighed_mean(ctx, codec, data, part, among);
    if (outcome && data.size() == ctx.parameters().size())
      outcome = kernels::clear(ctx.rows(), padding_of(ctx.view().segments, data.size()), data);
    std::vector<float> kept = std::exchange(kept_, {});    // another exchange may come before this one is over
    const bool stays = outcome && attendance.has_parts();  // of several rows the policy has what each came to still
    if (outcome) outcome = attendance.exchanged(data, {}, where);
    std::swap(kept, kept_);
    if (outcome || !ctx.keeps_inputs()) return outcome;
    if (!stays) std::copy(kept_.begin(), kept_.end(), data.begin());
    if (!is_refused(ctx, attendance, outcome.error())) return outcome;
    if (!collective::survives(codec, ctx.pool(), kept_)) return attendance.unusable(not_encodable);
    outcome.error().culprit = error::nobody;  // who says so is wrong, or spoilt it on its way
    return outcome;
  }

  /// See training_context::told_samples. errc::invalid_argument: nobody has any.
  static result<parallel::row_holders> told_samples(auto& ctx, std::uint64_t own, std::uint64_t part,
                                                    const parallel::row_holders* among) {
    parallel::row_holders told{.members = std::vector<net::peer_index>(ctx.peers()), .shares = {}};
    std::iota(told.members.begin(), told.members.end(), net::peer_index{0});
    if (among != nullptr) told.members = among->members;
    std::vector<std::uint64_t> all(told.members.size(), 1);  // who rests has trained on none
    if (all.size() > 1) {
      collective::group_view those{ctx.transport(), told.members};
      const auto id = ctx.exchange_id(collective::channels::metrics, part);
      CAUSEWAY_TRY(collective::all_gather(those, id, std::as_bytes(std::span{&own, 1}),
                                          std::as_writable_bytes(std::span{all}), ctx.exchange_options()));
    }
    const double sum = std::accumulate(all.begin(), all.end(), 0.0);
    if (sum == 0) return fail(errc::invalid_argument, "rows", "none of them is of any samples");
    for (const std::uint64_t samples : all) told.shares.push_back(static_cast<double>(samples) / sum);
    return told;
  }

  /// See training_context::check_own.
  static result<void> check(auto& ctx, round_attendance& attendance, std::span<float> row) {
    if (!attendance.can_sit_out()) return {};
    bool there = false;
    if constexpr (requires { ctx.rows().there(row); }) there = ctx.rows().there(row);
    const bool finite = there ? std::isfinite(ctx.norm_of(row)) : collective::finite_values(row);
    return finite ? result<void>{} : attendance.unusable(not_finite);
  }
  /// Where it was this peer's own values that everybody refused, it gives them up.
  static result<void> or_unusable(auto& ctx, round_attendance& attendance, result<void> outcome) {
    if (outcome || !is_refused(ctx, attendance, outcome.error())) return outcome;
    return attendance.unusable(not_encodable);
  }

  /// Of one exchange at a time.
  [[nodiscard]] collective::collective_options options(auto& ctx) {
    collective::collective_options options = ctx.exchange_options();
    options.workspace = &workspace_;
    return options;
  }

 private:
  static constexpr const char* not_finite = "it holds NaN or infinity";
  static constexpr const char* not_encodable = "it is not finite once it is encoded";

  // Equal shares scale by exactly 1.
  template <class Codec>
  result<void> weighed_mean(auto& ctx, const Codec& codec, std::span<float> data, std::uint64_t part,
                            const parallel::row_holders* among) {
    if (ctx.result_is_known()) return ctx.take_known_result(data, part);
    const float weight = among != nullptr ? among->weight_of(ctx.self()) : ctx.own_weight();
    if (weight != 1.0F) CAUSEWAY_TRY(ctx.rows().scale(data, weight));
    const auto id = ctx.exchange_id(collective::channels::updates, part);
    if (among == nullptr)
      return ctx.or_device_error(collective::exchange_mean(ctx.transport(), id, codec, data, options(ctx)));
    collective::group_view holders{ctx.transport(), among->members};
    return ctx.or_device_error(collective::exchange_mean(holders, id, codec, data, options(ctx)));
  }

  // kept_ ← data, which must be finite: one pass for both.
  result<void> keep_finite(auto& ctx, round_attendance& attendance, std::span<const float> data) {
    kept_.resize(data.size());
    if (collective::copy_finite(ctx.pool(), data, kept_)) return {};
    return attendance.unusable(not_finite);
  }

  static bool is_refused(auto& ctx, const round_attendance& attendance, const error& why) {
    return attendance.can_sit_out() && why.code == errc::non_finite && why.culprit == ctx.self();
  }

  std::vector<float> kept_;
  collective::collective_workspace workspace_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_MEAN_EXCHANGE_HPP
