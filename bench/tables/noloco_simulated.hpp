// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_TABLES_NOLOCO_SIMULATED_HPP
#define CAUSEWAY_BENCH_TABLES_NOLOCO_SIMULATED_HPP

// S6 again, with the exchanges that policies use: gather_mean in pairs against tree_mean among all, on the simulated
// network with a log-normal latency for each link. A pair of NoLoCo exchanges two rows, the outer parameters and the
// progress.

#include <causeway/collective/gather_mean.hpp>
#include <causeway/collective/tree_mean.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/sim/world.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "report.hpp"

namespace tables {

struct simulated_row {
  std::uint32_t peers;
  std::size_t values;
};

/// Hosts with lines of 1 Gbit/s; each link with a latency of its own, log-normal with a median of 50 ms and sigma 0.5.
inline void add_peers(causeway::sim::world& w, std::uint32_t peers) {
  for (std::uint32_t p = 0; p < peers; ++p) w.add_host();
  causeway::rng draw{7};
  for (std::uint32_t from = 0; from < peers; ++from) {
    for (std::uint32_t to = 0; to < peers; ++to) {
      if (from == to) continue;
      const double ms = 50 * std::exp(0.5 * static_cast<double>(draw.normal()));
      w.set_link(from, to, {.latency = causeway::duration{static_cast<std::int64_t>(ms * 1e6)}});
    }
  }
}

/// Seconds until a peer has its mean, on average over the peers. `group(host)` lists the hosts that a host exchanges with.
template <class Exchange, class Group>
double simulated_wait(const simulated_row& row, std::size_t values, const Group& group) {
  using namespace causeway;
  constexpr auto begin = std::chrono::seconds{60}, end = std::chrono::seconds{600};  // all have met; all are done
  sim::world w;
  add_peers(w, row.peers);
  double sum = 0;
  std::uint32_t done = 0;
  for (sim::host_index h = 0; h < row.peers; ++h) {
    w.boot(h, [&](sim::process& p) {
      auto met = p.make_transport(group(p.host()));
      if (!met) return;
      net::any_transport transport{std::move(*met)};
      p.sleep_till(time_point{begin});
      thread_pool pool{1};
      const collective::collective_options options{};
      const collective::exchange_port port{transport, {.channel = 32, .epoch = 1, .step = 1}, options};
      const compress::message_context ctx{.pool = pool};
      std::vector<float> own(values, static_cast<float>(p.host()));
      Exchange exchange;
      const collective::exchange_row mine{own};
      if (!exchange.begin(port, mine, ctx) || !exchange.turn(port, mine, ctx) || !exchange.finish(port, mine, ctx)) return;
      sum += std::chrono::duration<double>(p.now().since_start - begin).count();
      ++done;
      p.sleep_till(time_point{end});
    });
  }
  if (!w.run() || done != row.peers) {
    std::fprintf(stderr, "the simulated exchange failed for %u peers\n", row.peers);
    std::exit(2);
  }
  return sum / row.peers;
}

inline double simulated_pairs(const simulated_row& row) {
  std::vector<causeway::sim::host_index> order(row.peers);
  std::iota(order.begin(), order.end(), 0U);
  causeway::rng draw{11};
  for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[draw.below(i + 1)]);
  std::vector<causeway::sim::host_index> place(row.peers);
  for (std::uint32_t i = 0; i < row.peers; ++i) place[order[i]] = i;
  using exchange = causeway::collective::gather_mean<causeway::compress::as_message<causeway::compress::none>>;
  return simulated_wait<exchange>(row, 2 * row.values, [&](causeway::sim::host_index h) {
    const std::uint32_t first = place[h] & ~1U;
    return std::vector{order[first], order[first + 1]};
  });
}

inline double simulated_tree(const simulated_row& row) {
  std::vector<causeway::sim::host_index> all(row.peers);
  std::iota(all.begin(), all.end(), 0U);
  using exchange = causeway::collective::tree_mean<causeway::compress::as_message<causeway::compress::none>>;
  return simulated_wait<exchange>(row, row.values, [&](causeway::sim::host_index) { return all; });
}

/// Pairs against trees of up to `most_peers`: connecting everybody to everybody is what takes the time.
inline void noloco_simulated(report& out, std::uint32_t most_peers) {
  std::printf("  simulated exchanges, links of 50 ms (median) and 1 Gbit/s: tree_mean over gather_mean in pairs\n");
  bool all_cheaper = true;
  for (std::uint32_t peers = 64; peers <= most_peers; peers *= 2) {
    for (const std::size_t values : {std::size_t{256}, std::size_t{1} << 16U}) {
      const simulated_row row{peers, values};
      const double pair = simulated_pairs(row), tree = simulated_tree(row);
      std::printf("    %5u peers, rows of %4zu KiB: pair %6.1f ms, tree %7.1f ms, %5.1fx\n", peers, values * 4 / 1024,
                  1e3 * pair, 1e3 * tree, tree / pair);
      std::fflush(stdout);
      all_cheaper = all_cheaper && tree > 9 * pair;
    }
  }
  out.claim(all_cheaper, "simulated pairs are more than nine times cheaper than the tree from 64 peers on");
}

}  // namespace tables

#endif  // CAUSEWAY_BENCH_TABLES_NOLOCO_SIMULATED_HPP
