// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_STAGE_ACTIVATION_CHECKS_HPP
#define CAUSEWAY_TESTS_STAGE_ACTIVATION_CHECKS_HPP

// What every activation codec must do, whatever it makes of the values.

#include "support/catch.hpp"

#include <causeway/core/rng.hpp>
#include <causeway/stage/activation.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace activation_checks {

using causeway::errc;
using causeway::result;
using causeway::rng;
using causeway::thread_pool;
using causeway::stage::crossing;
using causeway::stage::direction;

inline std::vector<float> normal(std::size_t count, std::uint64_t seed, float scale = 1) {
  rng draw{seed};
  std::vector<float> all(count);
  for (float& v : all) v = draw.normal() * scale;
  return all;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

template <class A>
std::vector<std::byte> encode(A& codec, thread_pool& pool, const crossing& c, const std::vector<float>& values) {
  std::vector<std::byte> bytes(codec.most_bytes(c));
  const auto size = codec.encode(pool, c, values, bytes);
  REQUIRE(size);
  REQUIRE(*size <= bytes.size());
  bytes.resize(*size);
  return bytes;
}

template <class A>
std::vector<float> decode(A& codec, thread_pool& pool, const crossing& c, const std::vector<std::byte>& bytes) {
  std::vector<float> values(c.count());
  const auto outcome = codec.decode(pool, c, bytes, values);
  INFO((outcome ? std::string{} : outcome.error().text()));
  REQUIRE(outcome);
  return values;
}

template <class A>
errc decode_error(A& codec, const crossing& c, const std::vector<std::byte>& bytes) {
  thread_pool pool{1};
  std::vector<float> values(c.count());
  const auto outcome = codec.decode(pool, c, bytes, values);
  REQUIRE_FALSE(outcome);
  return outcome.error().code;
}

/// Bytes and values are the same for one thread and for three. `make()` gives a codec.
template <class Make>
void check_threads(Make&& make, const crossing& c, const std::vector<float>& values) {
  thread_pool one{1}, three{3};
  auto a = make(), b = make(), to_a = make(), to_b = make();
  const auto bytes = encode(a, one, c, values);
  REQUIRE(bytes == encode(b, three, c, values));
  REQUIRE(same_bits(decode(to_a, one, c, bytes), decode(to_b, three, c, bytes)));
}

/// NaN and infinity fail, at the sender or at the receiver, as errc::non_finite.
template <class Make>
void check_non_finite(Make&& make, const crossing& c, std::vector<float> values) {
  thread_pool pool{1};
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    auto sender = make(), receiver = make();
    values[values.size() / 2] = bad;
    std::vector<std::byte> room(sender.most_bytes(c));
    const auto size = sender.encode(pool, c, values, room);
    if (!size) {
      REQUIRE(size.error().code == errc::non_finite);
      continue;
    }
    room.resize(*size);
    REQUIRE(decode_error(receiver, c, room) == errc::non_finite);
  }
}

/// Wrong lengths are refused; random bytes, and messages with changed bytes, decode to finite values or to an error of a
/// kind that says whose fault it is. The sanitizers see whether anything is touched that should not be.
template <class Make>
void check_hostile_bytes(Make&& make, const crossing& c, const std::vector<float>& values, int rounds = 200) {
  thread_pool pool{1};
  auto sender = make();
  const auto good = encode(sender, pool, c, values);
  rng draw{c.seed + 99};
  std::vector<float> decoded(c.count());
  const auto attempt = [&](const std::vector<std::byte>& bytes) {
    auto receiver = make();
    const auto outcome = receiver.decode(pool, c, bytes, decoded);
    if (outcome) {
      REQUIRE(std::all_of(decoded.begin(), decoded.end(), [](float v) { return std::isfinite(v); }));
      return true;
    }
    const errc code = outcome.error().code;
    REQUIRE((code == errc::protocol || code == errc::corrupt || code == errc::non_finite || code == errc::diverged));
    return false;
  };
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, good.size() / 2, good.size() - 1}) {
    REQUIRE_FALSE(attempt({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)}));
  }
  auto longer = good;
  longer.push_back({});
  REQUIRE_FALSE(attempt(longer));
  for (int round = 0; round < rounds; ++round) {
    auto bytes = good;
    if (round % 2 == 0) {
      for (std::byte& b : bytes) b = static_cast<std::byte>(draw.next());
      if (round % 4 == 0) bytes.resize(draw.below(good.size() + 16));
    } else {
      for (int i = 0; i < 3; ++i) bytes[draw.below(bytes.size())] = static_cast<std::byte>(draw.next());
    }
    attempt(bytes);
  }
}

}  // namespace activation_checks

#endif  // CAUSEWAY_TESTS_STAGE_ACTIVATION_CHECKS_HPP
