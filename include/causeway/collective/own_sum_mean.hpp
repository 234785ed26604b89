// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_OWN_SUM_MEAN_HPP
#define CAUSEWAY_COLLECTIVE_OWN_SUM_MEAN_HPP

// The mean of plain f32 rows by the sums of the transport itself (net::SumsItself), such as MPI_Iallreduce: begun in one
// hook and finished in another, so that MPI moves it meanwhile. Over any other transport, by another exchange.

#include <causeway/collective/exchange.hpp>
#include <causeway/collective/exchange_message.hpp>
#include <causeway/collective/message_codec.hpp>
#include <causeway/collective/refusal.hpp>
#include <causeway/collective/sum.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/net/scoped_operation.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Models Exchange. The row is the transport's from `begin` to `finish`. A sum that has begun cannot be taken back:
/// cancelling waits for it, as long as the transport allows (net::mpi_transport_options::close_grace). All peers see values
/// that cannot be used, as errc::non_finite, and none whose they were. Nothing is left out, so the residual is zero. Bytes:
/// the transport's; or those of `Messages`, the exchange for transports without sums,
/// which must lose nothing and so have nothing to keep.
template <class Messages>
class own_sum_mean {
 public:
  static constexpr std::string_view name = "own_sum_mean";
  static constexpr exchange_traits traits{.bit_parity = Messages::traits.bit_parity,
                                          .own_support = false,
                                          .residual = true,
                                          .counts = false,
                                          .stateful = false};

  template <MessageContext X>
  result<void> begin(const exchange_port& port, const exchange_row& row, const X& ctx) {
    cancel();
    if (!port.transport.sums()) return by_messages_.begin(port, row, ctx);
    const bool mine = row.weight > 0 && row.refused == errc{};
    if (!mine) {
      std::fill(row.values.begin(), row.values.end(), 0.0F);
    } else if (row.weight != 1.0F) {
      kernels::scale(ctx.pool, row.values.data(), row.weight, static_cast<std::int64_t>(row.values.size()));
    }
    std::fill(row.residual.begin(), row.residual.end(), 0.0F);
    own_ = std::make_unique<under_way>();
    own_->total = row.refused != errc{} ? std::numeric_limits<float>::quiet_NaN() : row.weight;
    own_->row = {port.transport, port.transport.sum(row.values)};
    own_->weights = {port.transport, port.transport.sum({&own_->total, 1})};
    return {};
  }

  result<void> turn(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    if (!own_) return by_messages_.turn(port, row, ctx);
    (void)own_->row.done();  // a look, in which it moves
    return {};
  }

  result<void> finish(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    if (!own_) return by_messages_.finish(port, row, ctx);
    const std::unique_ptr<under_way> ended = std::move(own_);
    const auto summed = ended->row.wait(port.options.deadline);
    const auto weighed = ended->weights.wait(port.options.deadline);
    if (!summed) return summed.error();
    if (!weighed) return weighed.error();
    const std::uint32_t peers = port.transport.size();
    if (!finite_values({&ended->total, 1}) || !finite_values(row.values)) return to_error({peers, errc::non_finite}, peers);
    const float factor = detail::mean_factor(static_cast<double>(ended->total));
    if (factor == 0) return to_error({peers, errc::invalid_argument}, peers);
    kernels::scale(ctx.pool, row.values.data(), factor, static_cast<std::int64_t>(row.values.size()));
    return {};
  }

  void cancel() {
    by_messages_.cancel();
    own_.reset();
  }

 private:
  /// Stays where it is when the exchange moves: the transport adds to it.
  struct under_way {
    float total = 0;
    net::scoped_operation weights;
    net::scoped_operation row;
  };

  Messages by_messages_;
  std::unique_ptr<under_way> own_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_OWN_SUM_MEAN_HPP
