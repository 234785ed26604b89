// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_ROLES_HPP
#define CAUSEWAY_PLAN_ROLES_HPP

// Who trains and who averages for others: DeDLOC (Diskin et al., NeurIPS 2021, arXiv 2106.10207, section 3.2). Peers have a
// speed, a download and an upload. A round takes as long as the slower of two things that overlap: the trainers gather the
// global batch, and everybody's gradients are averaged. With T trainers, a peer that averages the share w of the vector
// receives it from the other trainers and sends the result back, and a trainer also sends, and gets back, what others
// average. Both directions carry the same, so that the narrower one, b, decides:
//   a trainer:  1 + (T - 2) w <= b xi      no trainer:  T w <= b xi      sum of w = 1, w >= 0
// in units of the vector. For given trainers the least xi is exact: the shares that peers can take within xi grow with it,
// and are filled up by bisection. The paper gives the choice of trainers to a solver; here it is a local search that
// changes one peer's role or swaps two, from several starts. collective/shares.hpp is the case where all train.

#include <causeway/config/config.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

struct role_peer {
  double speed = 0;     ///< samples per second; 0: cannot train
  double download = 0;  ///< bytes per second
  double upload = 0;    ///< bytes per second; with 0 either way it can take no part
};

struct role_plan {
  std::vector<bool> trains;
  std::vector<double> shares;  ///< of the vector, that each peer averages; they add up to 1
  double gather_seconds = std::numeric_limits<double>::infinity();   ///< until the global batch is there
  double average_seconds = std::numeric_limits<double>::infinity();  ///< of an average

  /// Of a round; infinite: nobody can train, or nobody can average.
  [[nodiscard]] double seconds() const noexcept { return std::max(gather_seconds, average_seconds); }
};

namespace detail {

class role_search {
 public:
  role_search(std::span<const role_peer> peers, double batch, double bytes)
      : peers_{peers.begin(), peers.end()}, batch_{batch}, bytes_{bytes} {}

  /// With these trainers.
  [[nodiscard]] role_plan rated(std::vector<bool> trains) const {
    role_plan p{std::move(trains), std::vector<double>(peers_.size())};
    double speed = 0, least = 0, trainers = 0;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (!p.trains[i]) continue;
      if (peers_[i].speed <= 0) return p;
      speed += peers_[i].speed;
      trainers += 1;
      least = std::max(least, 1 / width(i));  // it must at least send its own
    }
    if (trainers == 0) return p;
    p.gather_seconds = batch_ / speed;
    const double xi = trainers == 1 ? 0 : least_time(p.trains, trainers, least);
    p.average_seconds = xi * bytes_;
    double total = 0;
    for (std::size_t i = 0; i < peers_.size() && xi < infinite; ++i)
      total += p.shares[i] = room(i, p.trains[i], trainers, xi);
    for (double& w : p.shares) w = total > 0 ? w / total : 0;
    return p;
  }

  [[nodiscard]] role_plan best() const {
    role_plan best;
    std::vector<std::size_t> order(peers_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (const bool by_speed : {true, false}) {
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return by_speed ? peers_[a].speed > peers_[b].speed : width(a) > width(b);
      });
      std::vector<bool> trains(peers_.size(), false);
      for (const std::size_t i : order) {  // the first one, two, three, ...
        if (peers_[i].speed <= 0) continue;
        trains[i] = true;
        keep(best, rated(trains));
      }
    }
    while (change_roles(best)) {
    }
    return best;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  [[nodiscard]] double width(std::size_t i) const { return std::min(peers_[i].download, peers_[i].upload); }

  /// The share that peer i can average within xi.
  [[nodiscard]] double room(std::size_t i, bool trains, double trainers, double xi) const {
    if (!trains) return std::min(1.0, width(i) * xi / trainers);
    if (trainers <= 2) return 1;  // what it averages it need not send
    return std::clamp((width(i) * xi - 1) / (trainers - 2), 0.0, 1.0);
  }

  [[nodiscard]] double least_time(const std::vector<bool>& trains, double trainers, double least) const {
    const auto fits = [&](double xi) {
      double sum = 0;
      for (std::size_t i = 0; i < peers_.size(); ++i) sum += room(i, trains[i], trainers, xi);
      return sum >= 1;
    };
    if (least == infinite || fits(least)) return least;
    double low = least, high = least;
    while (!fits(high)) low = high, high *= 2;  // a trainer's room grows without limit
    for (int i = 0; i < 200 && low < high; ++i) {
      const double middle = low + (high - low) / 2;
      if (middle <= low || middle >= high) break;
      (fits(middle) ? high : low) = middle;
    }
    return high;
  }

  static bool keep(role_plan& best, role_plan next) {
    // Equal rounds: the one whose two parts are shorter together.
    const auto better = [](const role_plan& a, const role_plan& b) {
      if (a.seconds() != b.seconds()) return a.seconds() < b.seconds();
      return a.gather_seconds + a.average_seconds < b.gather_seconds + b.average_seconds;
    };
    if (!best.trains.empty() && !better(next, best)) return false;
    best = std::move(next);
    return true;
  }

  bool change_roles(role_plan& best) const {
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      for (std::size_t j = 0; j <= i && i < best.trains.size(); ++j) {
        std::vector<bool> trains = best.trains;
        trains[i] = !trains[i];
        if (j != i) trains[j] = !trains[j];
        if (keep(best, rated(std::move(trains)))) return true;
      }
    }
    return false;
  }

  std::vector<role_peer> peers_;
  double batch_;
  double bytes_;
};

}  // namespace detail

/// The roles with the shortest round that the search finds, for a global batch of `batch` samples and a vector of `bytes`
/// bytes. Deterministic. Each step of the search tries about n^2 / 2 changes of n peers.
inline role_plan assign_roles(std::span<const role_peer> peers, double batch, double bytes) {
  CAUSEWAY_EXPECT(batch > 0 && bytes >= 0);
  role_plan p = detail::role_search{peers, batch, bytes}.best();
  p.trains.resize(peers.size());
  p.shares.resize(peers.size());
  return p;
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_ROLES_HPP
