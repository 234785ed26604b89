// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_GROUP_THRESHOLD_MEAN_HPP
#define CAUSEWAY_AXIS_GROUP_THRESHOLD_MEAN_HPP

// StellaTrain's exchange (Lim et al. 2024, SIGCOMM; github.com/kaist-ina/stellatrain 6dccb2d): of each tensor a peer sends
// the groups of 16 values that reach a threshold, which it remembers; everybody's to everybody.

#include <causeway/axis/parts.hpp>
#include <causeway/collective/aggregator.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/gather_mean.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/value_groups.hpp>
#include <causeway/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

struct group_threshold_options {
  float share = 0.01F;    ///< of all values that arrive, in (0, 1]: each of n peers sends share / n of each tensor
  bool in_parts = false;  ///< peers choose from parts of each tensor that take turns, so that no two send the same value
};

namespace detail {

/// Models collective::Exchange. What was chosen counts for the thresholds when the next round begins, so that a second
/// attempt of one chooses as the first did.
class group_threshold_exchange {
  using mean = collective::gather_mean<compress::value_groups, collective::contributor_mean>;

 public:
  static constexpr std::string_view name = "group_threshold_mean";
  static constexpr collective::exchange_traits traits{
      .bit_parity = true, .own_support = true, .residual = true, .counts = true, .stateful = true};

  CAUSEWAY_DECL explicit group_threshold_exchange(group_threshold_options options);

  CAUSEWAY_DECL result<void> begin(const collective::exchange_port& port, const collective::exchange_row& row,
                                   const compress::message_context& ctx);
  result<void> turn(const collective::exchange_port&, const collective::exchange_row&, const compress::message_context&) {
    return {};
  }
  CAUSEWAY_DECL result<void> finish(const collective::exchange_port& port, const collective::exchange_row& row,
                                    const compress::message_context& ctx);
  /// All three for a peer that is its whole group: it moves by what it would have sent.
  CAUSEWAY_DECL result<void> alone(const collective::exchange_row& row, const compress::message_context& ctx);
  CAUSEWAY_DECL void cancel();

  void serialize(auto& ar) { ar(values_, rises_, next_values_, next_rises_, round_); }

 private:
  /// Fills `chosen_` and `most_`: peer `self` of `peers`.
  CAUSEWAY_DECL [[nodiscard]] result<void> choose(const collective::exchange_row& row, const compress::message_context& ctx,
                                                  std::uint32_t self, std::uint32_t peers);
  [[nodiscard]] compress::group_context context(const compress::message_context& ctx) const {
    return {ctx, chosen_, most_};
  }

  group_threshold_options options_;
  std::vector<float> values_, rises_;            ///< of each tensor's threshold, before round `round_`
  std::vector<float> next_values_, next_rises_;  ///< after it
  std::uint64_t round_ = 0;
  std::vector<std::uint32_t> chosen_;
  std::size_t most_ = 0;
  mean mean_;
};

}  // namespace detail

/// Σ x_i / n of what came; where peers' parts take turns, what came: then results of n peers add up, so that the learning
/// rate is to be 1/n of that for their mean. Use it with gradients, and error_feedback. A tensor of `size` values sends
/// max(1, size · share / n / 16) groups. Give the trainer an optimizer that moves only what came: optim::sparse_sgd,
/// optim::sparse_adam. Bytes: to everybody 64 for each group, and 10 bits or so for its place. State: 8 bytes a tensor;
/// memory: 4 bytes a group of the largest tensor.
struct group_threshold_mean {
  using type = detail::group_threshold_exchange;
  using codec_type = compress::value_groups;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  group_threshold_options options{};

  [[nodiscard]] type make(std::size_t = 0) const { return type{options}; }
};

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/group_threshold_mean.ipp>
#endif

#endif  // CAUSEWAY_AXIS_GROUP_THRESHOLD_MEAN_HPP
