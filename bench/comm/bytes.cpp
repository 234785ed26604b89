// SPDX-License-Identifier: Apache-2.0
// Bytes on the wire of every preset with its paper's settings, headers included, against gradients in f32 after every step.
//
// usage: bench_comm_bytes
//
// Two and eight peers train a model with a transformer's shapes (1.3 million parameters); what a peer sends is counted from
// the moment that a run is in its stride. Where peers go at their own pace they do so on the simulator, all equally fast.
// "published" is the ratio that the paper claims, and counts of what it was taken.
// Exit status 1 when a preset that sends to everybody sends more than its paper's ratio allows, between two peers.

#include <causeway/optim/adamw.hpp>
#include <causeway/optim/dion.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/presets/asynchronous.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/modular.hpp>
#include <causeway/presets/overlapped.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "support/shaped.hpp"
#include "support/simulated_runs.hpp"

namespace {

using namespace causeway;
using presets::make;

struct row {
  const char* name;
  std::uint64_t lead;
  std::uint64_t steps;
  double published;  // 0: none
  const char* of;
};

bool all_hold = true;
double base[2];

/// What a peer sends; or, of its messages, to the other half of the peers.
double bytes_of(const support::simulated_peer& p, std::size_t peer, bool to_other_half) {
  if (!to_other_half) return static_cast<double>(p.sent);
  const auto half = static_cast<std::ptrdiff_t>(p.sent_to.size() / 2);
  const auto other = p.sent_to.begin() + (static_cast<std::ptrdiff_t>(peer) < half ? half : 0);
  return static_cast<double>(std::accumulate(other, other + half, std::uint64_t{0}));
}

/// The mean over the peers of what each sends in `steps` steps after `lead` others, on the simulator.
template <class Inner, class MakePolicy>
double simulated_bytes(std::uint32_t peers, std::uint64_t lead, std::uint64_t steps, MakePolicy policy,
                       bool to_other_half = false) {
  const auto sent_until = [&](std::uint64_t last) {
    support::simulated_options o{.peers = peers, .steps = last};
    o.step = std::chrono::seconds{1};
    o.learning_rate = 3e-4F;  // as where peers share a clock: what is significant depends on it
    support::simulated_runs<Inner, support::shaped, MakePolicy> runs{policy, o};
    const auto run = runs.run();
    double sum = 0;
    for (std::size_t i = 0; i < peers; ++i) {
      if (run.peers[i].error) throw std::runtime_error{run.peers[i].error->text()};
      sum += bytes_of(run.peers[i], i, to_other_half) / peers;
    }
    return sum;
  };
  return sent_until(lead + steps) - sent_until(lead);
}

/// `policy()` or `policy(peers)` gives what a peer runs.
template <class Inner = optim::sgd, bool Simulated = false, class MakePolicy>
void measure(const row& r, MakePolicy policy) {
  double ratio[2];
  double bits[2];
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t peers = i == 0 ? 2 : 8;
    const auto one = [&] {
      if constexpr (std::is_invocable_v<MakePolicy>) {
        return policy();
      } else {
        return policy(peers);
      }
    };
    const double sent = Simulated ? simulated_bytes<Inner>(peers, r.lead, r.steps, one)
                                  : support::bytes_sent<Inner>(peers, r.lead, r.steps, one);
    if (base[i] == 0) base[i] = sent / static_cast<double>(r.steps);
    ratio[i] = base[i] * static_cast<double>(r.steps) / sent;
    bits[i] = sent / static_cast<double>(r.steps);
  }
  const bool holds = r.published == 0 || ratio[0] >= r.published;
  all_hold = all_hold && holds;
  char published[32] = "";
  if (r.published > 0) std::snprintf(published, sizeof published, "%.0f%s", r.published, holds ? "" : " MISSED");
  std::printf("%-18s %14.0f %10.1f %14.0f %10.1f  %-10s %s\n", r.name, bits[0], ratio[0], bits[1], ratio[1], published,
              r.of);
  std::fflush(stdout);
}

/// 0, 1, ... in two regions.
std::vector<std::vector<net::peer_index>> regions_of(std::uint32_t peers) {
  std::vector<std::vector<net::peer_index>> regions(2);
  for (std::uint32_t p = 0; p < peers; ++p) regions[2 * p / peers].push_back(p);
  return regions;
}

}  // namespace

int main() {
  std::printf("%-18s %14s %10s %14s %10s  %-10s\n", "", "2 peers: B/step", "times less", "8 peers: B/step", "times less",
              "published");
  measure({"every_step", 1, 4, 0, ""}, [] { return presets::every_step{}; });
  measure({"gaia", 4, 20, 0, "depends on the gradients: here they are noise"},
          [] { return make(presets::gaia_options{}); });
  measure<optim::sgd, true>({"gaia_asp", 4, 20, 0, "likewise"}, [] { return make(presets::gaia_asp_options{}); });
  measure<optim::sgd, true>(
      {"gaia_asp hubs", 4, 20, 0, "likewise; two groups, whose hubs talk to each other"},
      [](std::uint32_t peers) { return make(presets::gaia_asp_options{.groups = regions_of(peers)}); });
  for (const bool with_hubs : {false, true}) {
    const auto policy = [=] {
      return make(presets::gaia_asp_options{.groups = with_hubs ? regions_of(8) : collective::region_list{}});
    };
    std::printf("  between two groups of four, %s hubs: %.0f bytes a step, both ways\n", with_hubs ? "with" : "without",
                8 * simulated_bytes<optim::sgd>(8, 4, 20, policy, true) / 20);
  }
  measure({"local_sgd", 0, 40, 0, ""}, [] { return make(presets::local_sgd_options{}); });
  measure({"fedavg", 0, 200, 0, ""}, [] { return make(presets::fedavg_options{}); });
  measure({"photon H=64", 0, 128, 64, "64 local steps"}, [] { return make(presets::photon_options{.local_steps = 64}); });
  measure({"photon H=512", 0, 512, 512, "512 local steps"},
          [] { return make(presets::photon_options{.local_steps = 512}); });
  measure({"diloco", 0, 500, 500, "500 local steps"}, [] { return make(presets::diloco_options{}); });
  measure({"open_diloco", 0, 500, 0, "fp16 and 500 local steps: 1000 without headers"},
          [] { return make(presets::open_diloco_options{}); });
  measure({"intellect1", 0, 100, 390, "8 bits and 100 local steps: 400 without codebooks"},
          [] { return make(presets::intellect1_options{}); });
  measure({"muloco", 0, 30, 0, "2 bits and 30 local steps"}, [] { return make(presets::muloco_options{}); });
  measure<optim::adamw>({"des_loc", 0, 192, 0, "periods 32, 96, 192"}, [] { return make(presets::des_loc_options{}); });
  measure({"streaming_diloco", 100, 100, 400, "against bf16: 4 bits and 100 local steps; against f32: 800"},
          [] { return make(presets::streaming_diloco_options{}); });
  measure({"eager_diloco", 500, 500, 0, "500 local steps"}, [] { return make(presets::eager_diloco_options{}); });
  measure({"cocodc", 100, 100, 0, "100 local steps"}, [] { return make(presets::cocodc_options{}); });
  measure({"sparse_loco", 0, 30, 146 * 30, "146 for the message, and 30 local steps"},
          [] { return make(presets::sparse_loco_options{}); });
  measure({"sparta", 1, 40, 0, "0.5 % of the parameters in every step"}, [] { return make(presets::sparta_options{}); });
  measure({"sparta_diloco", 0, 1000, 0, ""}, [] { return make(presets::sparta_diloco_options{}); });
  measure({"demo", 1, 10, 85, "every step"}, [] { return make(presets::demo_options{}); });
  measure({"distro", 2, 10, 0, "every step, one bit a coefficient"}, [] { return make(presets::distro_options{}); });
  measure({"cocktail_sgd", 2, 10, 117, "every step, one step late"}, [] { return make(presets::cocktail_sgd_options{}); });
  measure({"stella_train", 2, 40, 0, "every step, a hundredth of the values of all peers"},
          [] { return make(presets::stella_train_options{}); });
  measure({"power_sgd", 1, 4, 0, "every step, rank 4"}, [] { return make(presets::power_sgd_options{}); });
  measure({"noloco", 0, 50, 0, "50 local steps, two rows, one partner"}, [] { return make(presets::noloco_options{}); });
  measure({"moshpit_sgd", 0, 40, 0, "20 local steps"}, [] { return make(presets::moshpit_sgd_options{.side = 2}); });
  measure({"bacombo", 0, 40, 0, "20 local steps"}, [] { return make(presets::bacombo_options{}); });
  measure({"dipaco", 0, 500, 0, "500 local steps; paths through 2 x 4 modules (2 peers: 1 x 2)"}, [](std::uint32_t peers) {
    const std::uint32_t last = std::min(peers, 4U);
    return make(presets::dipaco_options{.paths = axis::every_path({peers / last, last}, peers), .blocks_per_level = 3});
  });
  measure({"co_learning", 0, 20, 0, "its first round, 20 local steps"},
          [] { return make(presets::co_learning_options{}); });
  measure({"edit", 0, 128, 0, "128 local steps"}, [] { return make(presets::edit_options{}); });
  measure<optim::sgd, true>({"a_edit", 128, 256, 0, "meetings after 128 local steps, equally fast"},
                            [] { return make(presets::a_edit_options{.seconds = 127.5}); });
  measure<optim::dion>({"dion", 1, 4, 0, "every step, rank 64 of matrices whose smaller side is 128"},
                       [] { return make(presets::dion_options{}); });
  measure({"dlion", 1, 10, 0, "every step, entries above the root mean square"},
          [] { return make(presets::dlion_options{}); });
  measure({"netstorm", 1, 4, 0, "every step, trees to two roots (8 peers: four)"}, [](std::uint32_t peers) {
    if (peers == 2) return make(presets::netstorm_options{.shares = 2, .roots = {0, 1}});
    return make(presets::netstorm_options{});
  });
  measure({"ravnest", 0, 40, 0, "20 local steps, two clusters"},
          [](std::uint32_t peers) { return make(presets::ravnest_options{.clusters = regions_of(peers)}); });
  measure<optim::sgd, true>({"dedloc", 256, 1024, 0, "every 512 samples of a peer: 512 steps of one"},
                            [](std::uint32_t peers) { return make(presets::dedloc_options{.batch = 512 * peers}); });
  measure<optim::sgd, true>({"async_local_sgd", 50, 500, 0, "50 local steps; pushes and answers"},
                            [] { return make(presets::async_local_sgd_options{}); });
  measure<optim::sgd, true>({"decoupled_diloco", 48, 240, 0, "24 local steps, 4 bits; the hub's answers in f32"},
                            [] { return make(presets::decoupled_diloco_options{}); });
  measure<optim::sgd, true>({"halos", 256, 512, 0, "8 local steps, 32 pushes to a region's hub; two regions"},
                            [](std::uint32_t peers) { return make(presets::halos_options{.regions = regions_of(peers)}); });
  return all_hold ? 0 : 1;
}
