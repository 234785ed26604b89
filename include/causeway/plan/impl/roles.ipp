// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_ROLES_IPP
#define CAUSEWAY_PLAN_IMPL_ROLES_IPP

#include <causeway/plan/roles.hpp>

#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL role_search::role_search(std::span<const role_peer> peers, double batch, double bytes)
    : peers_{peers.begin(), peers.end()}, batch_{batch}, bytes_{bytes} {}

CAUSEWAY_DECL role_plan role_search::rated(std::vector<bool> trains) const {
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

CAUSEWAY_DECL role_plan role_search::best() const {
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

CAUSEWAY_DECL double role_search::room(std::size_t i, bool trains, double trainers, double xi) const {
  if (!trains) return std::min(1.0, width(i) * xi / trainers);
  if (trainers <= 2) return 1;  // what it averages it need not send
  return std::clamp((width(i) * xi - 1) / (trainers - 2), 0.0, 1.0);
}

CAUSEWAY_DECL double role_search::least_time(const std::vector<bool>& trains, double trainers, double least) const {
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

CAUSEWAY_DECL bool role_search::keep(role_plan& best, role_plan next) {
  // Equal rounds: the one whose two parts are shorter together.
  const auto better = [](const role_plan& a, const role_plan& b) {
    if (a.seconds() != b.seconds()) return a.seconds() < b.seconds();
    return a.gather_seconds + a.average_seconds < b.gather_seconds + b.average_seconds;
  };
  if (!best.trains.empty() && !better(next, best)) return false;
  best = std::move(next);
  return true;
}

CAUSEWAY_DECL bool role_search::change_roles(role_plan& best) const {
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

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL role_plan assign_roles(std::span<const role_peer> peers, double batch, double bytes) {
  CAUSEWAY_EXPECT(batch > 0 && bytes >= 0);
  role_plan p = detail::role_search{peers, batch, bytes}.best();
  p.trains.resize(peers.size());
  p.shares.resize(peers.size());
  return p;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_ROLES_IPP
