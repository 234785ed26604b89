// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_COLLECTIVE_EXCHANGE_CASES_HPP
#define CAUSEWAY_TESTS_COLLECTIVE_EXCHANGE_CASES_HPP

// What tests of exchanges share: codecs whose messages are easy to work out by hand, a plain reference, and runs of one
// exchange over a memory network with a thread per peer.

#include <causeway/collective/exchange.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "peers.hpp"

namespace cases {

using namespace peer_threads;
using causeway::errc;
using causeway::fail;
using causeway::thread_pool;
using causeway::collective::collective_options;
using causeway::collective::exchange_port;
using causeway::collective::exchange_row;
using causeway::compress::codec_traits;
using causeway::compress::message_context;
using causeway::net::any_transport;

using plain = causeway::compress::as_message<causeway::compress::none>;

/// Values of at least `smallest`, each as its index and itself: every peer sends coordinates of its own.
struct pairs {
  static constexpr std::string_view name = "pairs";
  static constexpr codec_traits traits{.lossy = true, .sparse = true};
  float smallest = 0;

  struct entry {
    std::uint32_t at;
    float value;
  };

  [[nodiscard]] std::size_t most_bytes(const message_context&, std::size_t n) const { return n * sizeof(entry); }
  std::size_t encode(const message_context&, std::span<const float> values, std::span<std::byte> room) const {
    std::size_t used = 0;
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      if (std::abs(values[i]) < smallest) continue;
      const entry e{i, values[i]};
      std::memcpy(room.data() + used, &e, sizeof e);
      used += sizeof e;
    }
    return used;
  }
  causeway::result<void> decode_add(const message_context&, std::span<const std::byte> bytes, std::span<float> sum,
                                    float weight, std::span<float> counts) const {
    if (bytes.size() % sizeof(entry) != 0) return fail(errc::protocol, "pairs", "not a whole number of entries");
    std::vector<entry> all(bytes.size() / sizeof(entry));
    if (!bytes.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
    for (const entry& e : all) {
      if (e.at >= sum.size()) return fail(errc::corrupt, "pairs", "an index beyond the row");
      if (!std::isfinite(e.value)) return fail(errc::non_finite, "pairs", "not finite");
    }
    for (const entry& e : all) {
      sum[e.at] += weight * e.value;
      if (!counts.empty()) counts[e.at] += weight;
    }
    return {};
  }
};
static_assert(causeway::compress::MessageCodec<pairs>);

/// Rounds to quarters: loses something, and gives the loss away.
struct quarters {
  static constexpr std::string_view name = "quarters";
  static constexpr codec_traits traits{.lossy = true};
  static float rounded(float x) { return std::nearbyint(x * 4.0F) / 4.0F; }

  [[nodiscard]] std::size_t most_bytes(const message_context& ctx, std::size_t n) const {
    return plain{}.most_bytes(ctx, n);
  }
  std::size_t encode(const message_context& ctx, std::span<const float> values, std::span<std::byte> room) const {
    std::vector<float> coarse(values.begin(), values.end());
    for (float& x : coarse) x = rounded(x);
    return plain{}.encode(ctx, coarse, room);
  }
  causeway::result<void> decode_add(const message_context& ctx, std::span<const std::byte> bytes, std::span<float> sum,
                                    float weight, std::span<float> counts) const {
    return plain{}.decode_add(ctx, bytes, sum, weight, counts);
  }
};

/// Coefficients are the values back to front: whoever forgets the inverse, or does it twice, is found out.
struct mirrored {
  static constexpr std::string_view name = "mirrored";
  static constexpr codec_traits traits{.lossy = false, .transform = true};

  [[nodiscard]] std::size_t most_bytes(const message_context& ctx, std::size_t n) const {
    return plain{}.most_bytes(ctx, n);
  }
  std::size_t encode(const message_context& ctx, std::span<const float> values, std::span<std::byte> room) const {
    return plain{}.encode(ctx, std::vector<float>(values.rbegin(), values.rend()), room);
  }
  causeway::result<void> decode_add(const message_context& ctx, std::span<const std::byte> bytes, std::span<float> sum,
                                    float weight, std::span<float> counts) const {
    return plain{}.decode_add(ctx, bytes, sum, weight, counts);
  }
  void inverse(const message_context&, std::span<float> row) const {
    for (std::size_t i = 0; i < row.size() / 2; ++i) std::swap(row[i], row[row.size() - 1 - i]);
  }
};
static_assert(causeway::compress::MessageCodec<mirrored>);

/// A message as exchanges send it, with any header and `bytes` zeros behind it.
inline std::vector<std::byte> message(float weight, std::uint32_t values, std::uint32_t refused, std::uint32_t code,
                                      std::size_t bytes) {
  std::vector<std::byte> all(16 + bytes);
  std::memcpy(all.data(), &weight, 4);
  std::memcpy(all.data() + 4, &values, 4);
  std::memcpy(all.data() + 8, &refused, 4);
  std::memcpy(all.data() + 12, &code, 4);
  return all;
}

/// One peer's side of one exchange.
struct side {
  explicit side(any_transport transport) : net{std::move(transport)} {}
  side(const side&) = delete;  // its context refers to its pool
  side& operator=(const side&) = delete;

  any_transport net;
  thread_pool pool{1};
  collective_options options{.deadline = soon()};
  message_context ctx{.pool = pool};
  peer_index self = net.self();
  std::uint32_t size = net.size();

  [[nodiscard]] exchange_port port(std::uint64_t step = 7, std::uint32_t channel = 32) {
    return {net, {.channel = channel, .epoch = 1, .step = step, .parent = 99}, options};
  }
};

/// Runs `f(side)` for every peer. Peers leave together: whoever is done early takes nobody's connection away.
template <class F>
std::vector<causeway::result<void>> run_sides(const memory_network& network, const F& f) {
  return run(network, [&](memory_transport& end) {
    side s{any_transport{std::move(end)}};
    return f(s);
  });
}

/// Small whole numbers: sums are exact in any order.
inline std::vector<float> whole_values(peer_index peer, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 7 + peer * 13) % 23) - 11.0F;
  return values;
}

/// Σ w_i x_i / Σ w_i in f64.
inline std::vector<double> reference_mean(const std::vector<std::vector<float>>& rows, const std::vector<float>& weights) {
  std::vector<double> mean(rows.front().size());
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t p = 0; p < rows.size(); ++p) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += double{weights[p]} * double{rows[p][i]} / total;
  }
  return mean;
}

inline double largest_difference(std::span<const float> a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

}  // namespace cases

#endif  // CAUSEWAY_TESTS_COLLECTIVE_EXCHANGE_CASES_HPP
