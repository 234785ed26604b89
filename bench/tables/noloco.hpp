// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_TABLES_NOLOCO_HPP
#define CAUSEWAY_BENCH_TABLES_NOLOCO_HPP

// S6: an exchange of NoLoCo (arXiv 2506.10911) against an all-reduce over a tree. Published: "about ten times" near 1,000
// replicas. Derived: messages take log-normal times of median 1, whatever their size; a peer goes on when the messages that
// it needs are there. What a tree all-reduce is, is not said: here it is once the sums up a binary tree and the mean down
// again, once rounds of pairs (recursive doubling), which is what log2(n) levels of pairs cost.

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "report.hpp"

namespace tables {

/// Times of messages.
class message_times {
 public:
  message_times(double sigma, std::uint64_t stream) : sigma_{sigma}, draw_{1, stream} {}
  double operator()() { return std::exp(sigma_ * static_cast<double>(draw_.normal())); }

 private:
  double sigma_;
  causeway::rng draw_;
};

/// What a peer of a pair waits, on average: one message.
inline double pair_wait(double sigma) { return std::exp(sigma * sigma / 2); }

/// When the peers have the mean, on average over them: up a binary tree, level by level as in tree_mean, and down.
inline double tree_wait(std::uint32_t peers, message_times& message) {
  std::vector<double> at(peers, 0);
  for (std::uint32_t p = peers; p-- > 1;) at[(p - 1) / 2] = std::max(at[(p - 1) / 2], at[p] + message());
  double sum = at[0];
  for (std::uint32_t p = 1; p < peers; ++p) sum += at[p] = at[(p - 1) / 2] + message();
  return sum / peers;
}

/// The same by rounds of pairs at distances 1, 2, 4, ...; `peers` a power of two.
inline double doubling_wait(std::uint32_t peers, message_times& message) {
  std::vector<double> at(peers, 0), next(peers);
  for (std::uint32_t distance = 1; distance < peers; distance *= 2) {
    for (std::uint32_t p = 0; p < peers; ++p) next[p] = std::max(at[p], at[p ^ distance] + message());
    at.swap(next);
  }
  double sum = 0;
  for (const double t : at) sum += t;
  return sum / peers;
}

template <class F>
double mean_of(int repeats, const F& f) {
  double sum = 0;
  for (int i = 0; i < repeats; ++i) sum += f();
  return sum / repeats;
}

struct noloco_ratios {
  double tree;
  double doubling;
};

inline noloco_ratios noloco_model(std::uint32_t peers, double sigma) {
  message_times message{sigma, peers};
  constexpr int repeats = 20;
  return {mean_of(repeats, [&] { return tree_wait(peers, message); }) / pair_wait(sigma),
          mean_of(repeats, [&] { return doubling_wait(peers, message); }) / pair_wait(sigma)};
}

inline void noloco(report& out) {
  out.section("S6", "NoLoCo (arXiv 2506.10911): an all-reduce over one exchange of a pair; published about 10x near 1,000");
  std::printf("  log-normal messages (derived)  %8s %12s %14s\n", "sigma", "binary tree", "rounds of pairs");
  for (const std::uint32_t peers : {64U, 256U, 1024U}) {
    for (const double sigma : {0.0, 0.5, 1.0}) {
      const noloco_ratios r = noloco_model(peers, sigma);
      std::printf("    %5u peers %25.1f %12.1f %14.1f\n", peers, sigma, r.tree, r.doubling);
    }
  }
  out.heading("1,024 peers, all messages take as long");
  const noloco_ratios r = noloco_model(1024, 0);
  out.compare("rounds of pairs over a pair", 10, r.doubling, 0.05, "x");
  out.compare("binary tree, up and down, over a pair", 10, r.tree, 0.05, "x");
  out.claim(r.doubling > 9.99 && noloco_model(1024, 0.5).doubling > r.doubling && r.tree > r.doubling,
            "ten times at 1,024 peers, more with uneven messages and with a tree");
}

}  // namespace tables

#endif  // CAUSEWAY_BENCH_TABLES_NOLOCO_HPP
