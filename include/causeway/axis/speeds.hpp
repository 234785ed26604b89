// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_SPEEDS_HPP
#define CAUSEWAY_AXIS_SPEEDS_HPP

// How fast each peer computes, told by all to all, for triggers that follow it.

#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/core/result.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis { namespace detail {

/// speeds[peer] ← what it has done a second; 0: it does not know. This one has `done` that much in `seconds`. The speed of
/// a stage is that of its pipeline, the same at all stages: done over the mean of their seconds. `number` of such exchanges
/// went before. Bytes: 8 to each other peer, and 8 to
/// each other stage.
result<void> speeds_of_all(auto& ctx, double done, double seconds, std::uint64_t number, std::vector<double>& speeds) {
  CAUSEWAY_TRY(ctx.stages().sum(std::span{&seconds, 1}, ctx.exchange_options()));
  const double speed = seconds > 0 ? done * static_cast<double>(ctx.stages().count()) / seconds : 0;
  speeds.assign(ctx.peers(), speed);
  if (ctx.peers() > 1) {
    const auto id = ctx.exchange_id({.channel = collective::channels::metrics, .step = number}, 0);
    CAUSEWAY_TRY(collective::all_gather(ctx.transport(), id, std::as_bytes(std::span{&speed, 1}),
                                        std::as_writable_bytes(std::span{speeds}), ctx.exchange_options()));
  }
  return {};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::axis::detail

#endif  // CAUSEWAY_AXIS_SPEEDS_HPP
