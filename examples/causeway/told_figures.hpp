// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_TOLD_FIGURES_HPP
#define CAUSEWAY_EXAMPLES_TOLD_FIGURES_HPP

// How a peer stands, as it tells the others of its run, so that the page of one machine shows those of all. Nobody computes
// with these numbers, and nobody believes one that cannot be.

#include <causeway/core/result.hpp>
#include <causeway/net/codec.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace app {

struct told_figures {
  std::uint64_t step = 0;
  std::uint64_t round = 0;
  std::uint64_t bytes_sent = 0;
  double loss = 0;  ///< in nats per token; NaN: it has none yet, or no finite one
  double tokens_per_second = 0;
  double blocked_seconds = 0;

  static constexpr std::byte kind{0x94};  ///< of the control message; peer_talk.hpp has its neighbours
  static constexpr std::uint64_t largest = std::uint64_t{1} << 53U;  ///< of counts: what a reader of JSON keeps exactly
  static constexpr double most = 1e15;                               ///< of the others

  /// Whether a peer can be so.
  [[nodiscard]] bool possible() const noexcept {
    const auto within = [](double v) { return v >= 0 && v <= most; };
    return step <= largest && round <= largest && bytes_sent <= largest && (std::isnan(loss) || within(loss)) &&
           within(tokens_per_second) && within(blocked_seconds);
  }

  [[nodiscard]] std::vector<std::byte> encode() const {
    causeway::net::byte_writer out;
    out.put(static_cast<std::uint8_t>(kind)).put(step).put(round).put(bytes_sent);
    for (const double v : {loss, tokens_per_second, blocked_seconds}) out.put(std::bit_cast<std::uint64_t>(v));
    return std::move(out).take();
  }
  static causeway::result<told_figures> decode(std::span<const std::byte> message) {
    causeway::net::byte_reader in{message};
    (void)in.get<std::uint8_t>();
    told_figures f;
    f.step = in.get<std::uint64_t>();
    f.round = in.get<std::uint64_t>();
    f.bytes_sent = in.get<std::uint64_t>();
    for (double* const v : {&f.loss, &f.tokens_per_second, &f.blocked_seconds}) {
      *v = std::bit_cast<double>(in.get<std::uint64_t>());
    }
    if (!f.possible()) in.refuse();
    CAUSEWAY_TRY(in.finish("figures"));
    return f;
  }
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_TOLD_FIGURES_HPP
