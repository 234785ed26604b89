// SPDX-License-Identifier: Apache-2.0
#include "sim_cluster.hpp"

#include <causeway/io/file_storage.hpp>
#include <causeway/membership/checker.hpp>
#include <causeway/sim/disk.hpp>
#include <causeway/sim/fault_apply.hpp>
#include <causeway/sim/link_table.hpp>
#include <causeway/sim/world.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "elastic_place.hpp"
#include "launch.hpp"
#include "policies.hpp"
#include "run_model.hpp"
#include "sim_faults.hpp"

namespace app {
namespace {

namespace sim = causeway::sim;
namespace membership = causeway::membership;
using causeway::duration;
using causeway::time_point;
using namespace std::chrono_literals;

duration from_seconds(double s) { return duration{std::llround(s * 1e9)}; }

class cluster {
 public:
  cluster(const session_input& in, const std::function<void(const std::string&)>& history)
      : in_{in},
        history_{history},
        checker_{quota_of(in.s), budget_of(in.s)},
        peers_(in.s.net.peers),
        world_{world_options(in.s)} {}

  causeway::result<sim_result> run(const std::function<bool(const sim_progress&)>& progress) {
    CAUSEWAY_TRY(build());
    if (history_) {
      world_.set_log([this](time_point at, std::uint32_t host, causeway::severity, std::string_view text) {
        history_("# " + std::to_string(causeway::seconds(at.since_start)) + " host " + std::to_string(host) + ": " +
                 std::string{text});
      });
    }
    for (std::uint32_t host = 0; host < world_.hosts(); ++host) {
      world_.boot(host, [this](sim::process& p) { live(p); });
    }
    const time_point end{horizon_ * 20 + 2h};
    while (!over_ && world_.now() < end) {
      world_.run_for(horizon_ / 200 + 1s);
      if (!progress({causeway::seconds(world_.now().since_start), newest_, alive()})) {
        total_.cancelled = true;
        break;
      }
    }
    return conclude();
  }

 private:
  struct peer {
    bool finished = false;
    double alive = 0;      // seconds, until it was through
    double computing = 0;  // of them
    double nominal = 0;    // what that computing takes at speed 1
    std::uint64_t state = 0;
    std::string last_error;
    std::shared_ptr<causeway::member> group;
  };

  // ---- the world ------------------------------------------------------------------------------------------------------

  static sim::world_options world_options(const settings& s) {
    sim::world_options o;
    o.seed = s.run.seed;
    o.link.latency = from_seconds(s.sim.latency_ms / 1e3);
    o.stack_bytes = std::size_t{1} << 20U;  // for the kernels of real models
    return o;
  }

  causeway::result<void> build() {
    sim::link_table links;
    if (!in_.s.sim.links.empty()) {
      CAUSEWAY_ASSIGN(const std::string text, read_small_file(in_.s.sim.links));
      CAUSEWAY_ASSIGN(links, sim::link_table::parse(text, in_.s.sim.links));
    }
    const auto regions = static_cast<std::uint32_t>(std::max<std::size_t>(links.regions().size(), 1));
    const double rate = in_.s.sim.mbit_per_s * 1e6 / 8;
    for (std::uint32_t i = 0; i < in_.s.net.peers; ++i) {
      world_.add_host({.up_bytes_per_s = rate, .down_bytes_per_s = rate, .region = i % regions});
      disks_.emplace_back(sim::disk_options{.seed = causeway::mix(in_.s.run.seed, 0x6469736BU, i)});
    }
    links.apply_to(world_);
    const double round = nominal_seconds(in_, static_cast<double>(in_.s.train.batch * in_.s.model.context));
    const double whole = in_.s.sim.horizon > 0 ? in_.s.sim.horizon : round * static_cast<double>(in_.s.train.steps);
    horizon_ = from_seconds(std::max(whole, 10.0));
    CAUSEWAY_ASSIGN(plan_, plan_faults(in_.s.sim.faults, world_.hosts(), horizon_, in_.s.run.seed));
    return sim::apply(plan_, world_, [this](std::uint32_t host) { return &disks_[host]; });
  }

  [[nodiscard]] std::uint32_t alive() const {
    std::uint32_t count = 0;
    for (std::uint32_t host = 0; host < world_.hosts(); ++host) count += world_.alive(host) ? 1U : 0U;
    return count;
  }

  // ---- one process ----------------------------------------------------------------------------------------------------

  // Notes what a process used, however it ends.
  struct meter {
    cluster& all;
    sim::process& process;
    time_point begin = process.now();
    std::optional<time_point> through{};
    std::shared_ptr<causeway::net::fabric> fabric{};

    ~meter() {
      all.peers_[process.host()].alive += causeway::seconds(through.value_or(process.now()) - begin);
      if (fabric) all.total_.bytes_sent += fabric->stats().bytes_sent;
      all.peers_[process.host()].group.reset();
    }
  };

  struct events final : session_events {
    explicit events(meter& of) : used{of} {}
    void finished(const session_summary& s) override {
      used.through = used.process.now();
      used.all.finish(used.process.host(), s);
    }
    meter& used;
  };

  void live(sim::process& p) {
    const std::uint32_t host = p.host();
    meter used{*this, p};
    const auto outcome = train(p, used);
    if (outcome || over_) return;
    peers_[host].last_error = outcome.error().text();
    restart_later(host, p.incarnation());
  }

  // As whoever keeps a service running does. A process that ended may still be waiting for its disk.
  void restart_later(std::uint32_t host, std::uint32_t incarnation) {
    world_.after(5s, [this, host, incarnation] {
      if (over_ || world_.incarnation(host) != incarnation) return;
      if (world_.alive(host)) return restart_later(host, incarnation);
      world_.restart(host);
    });
  }

  causeway::result<void> train(sim::process& p, meter& used) {
    const std::uint32_t host = p.host();
    causeway::io::any_storage disk{causeway::io::basic_file_storage<sim::disk>{disks_[host]}};
    const std::uint64_t fresh = (p.random().next() % 1'000'000'000 + 1) * 1000 + host % 1000;
    const auto id = causeway::member_identity(disk, folder, in_.run_id, fresh);
    events told{used};
    elastic_place place{.storage = disk};
    place.fabric = used.fabric = p.make_fabric(id);
    place.folder = folder;
    place.events = &told;
    place.computed = [this, &p](std::int64_t tokens, double part) { compute(p, part * static_cast<double>(tokens)); };
    place.linger = [&p] {  // whoever keeps a service running lets it run until nobody needs it
      p.sleep(10000h);
      return causeway::result<void>{};
    };
    place.validates = [&] { return place.group->budget_used() && total_.validation == 0; };
    causeway::member_options o = options_for(host, disk);
    CAUSEWAY_ASSIGN(place.group, causeway::member::make(place.fabric, disk, std::move(o), p.log()));
    peers_[host].group = place.group;

    session_input mine = in_;
    mine.stopping = [&p] { return p.asked_to_stop(); };
    causeway::environment env;
    env.clock = p.clock();
    env.log = p.log();
    env.group = place.group;
    training t{mine, std::move(env), &place};
    const bool real = in_.s.sim.compute == "real";
    CAUSEWAY_TRY(real ? run_model(std::move(t))
                      : find_policy(in_.s.comm.policy)->train(make_stand_in(in_.s), std::move(t)));
    return {};
  }

  causeway::member_options options_for(std::uint32_t host, causeway::io::any_storage disk) {
    causeway::member_options o = member_options_of(in_.s, in_.run_id);
    o.folder = folder;
    o.patience = o.newcomer_patience = duration{0};  // whoever keeps a service running would only start it again
    o.secret = causeway::mix(in_.s.run.seed, host, world_.incarnation(host));
    const bool founds = host == 0 && checker_.rounds() == 0 && !disk.read(std::string{folder} + "/record");
    for (std::uint32_t i = 0; i < world_.hosts() && !founds; ++i) {
      if (i != host) o.dial.push_back(world_.address(i));
    }
    o.journal = [this](const membership::event& e) { observe(e); };
    return o;
  }

  void compute(sim::process& p, double tokens) {
    const time_point begin = p.now();
    const double nominal = nominal_seconds(in_, tokens);
    p.compute(from_seconds(nominal));
    peers_[p.host()].computing += causeway::seconds(p.now() - begin);
    peers_[p.host()].nominal += nominal;
  }

  // ---- what is seen ---------------------------------------------------------------------------------------------------

  void observe(const membership::event& e) {
    if (history_) history_(membership::to_line(e));
    if (total_.violation) return;
    total_.violation = checker_.check(e);
    if (e.what == membership::event::commit && (e.round > newest_ || total_.rounds == 0)) {
      newest_ = e.round;
      total_.rounds = e.round;
      total_.state = e.hash;
      for (const auto& c : e.contributions) total_.samples += c.samples;
    }
    if (total_.violation) stop();
  }

  void finish(std::uint32_t host, const session_summary& s) {
    peers_[host].finished = true;
    peers_[host].state = s.state_hash;
    if (s.validation > 0 && total_.validation == 0) total_.validation = s.validation;
    if (s.state_hash != total_.state && !total_.violation) {
      total_.violation = "host " + std::to_string(host) + " ended with another state than that of the last round";
    }
    const bool all = std::all_of(peers_.begin(), peers_.end(), [](const peer& p) { return p.finished; });
    total_.complete = all;
    if (all || total_.violation) stop();
  }

  void stop() {
    over_ = true;
    world_.end_run();
  }

  sim_result conclude() {
    total_.seconds = causeway::seconds(world_.now().since_start);
    total_.history = world_.history_hash();
    total_.events = world_.event_count();
    for (std::uint32_t host = 0; host < world_.hosts(); ++host) {
      if (world_.incarnation(host) > 1) total_.restarts += world_.incarnation(host) - 1;
      if (!total_.complete && !total_.violation) total_.waiting += describe(host);
    }
    for (const sim::fault& f : plan_.faults) {
      if (f.at > world_.now()) continue;
      if (f.kind == sim::fault_kind::kill || f.kind == sim::fault_kind::power_off) total_.kills += f.hosts.size();
      if (f.kind == sim::fault_kind::stop) total_.stops += f.hosts.size();
    }
    for (std::uint32_t host = 0; host < world_.hosts(); ++host) world_.kill(host);
    world_.run_for(duration{0});  // their meters count
    for (const peer& p : peers_) {
      total_.alive_seconds += p.alive;
      total_.compute_seconds += p.computing;
      total_.capacity_seconds += p.computing > 0 ? p.alive * p.nominal / p.computing : 0;
    }
    total_.useful_seconds =
        nominal_seconds(in_, static_cast<double>(total_.samples) * static_cast<double>(in_.s.model.context));
    return total_;
  }

  std::string describe(std::uint32_t host) const {
    const peer& p = peers_[host];
    std::string text = "host " + std::to_string(host) + ": ";
    if (p.finished) return text + "through\n";
    if (p.group)
      text += p.group->describe();
    else
      text += "does not run; " + p.last_error;
    return text + "\n";
  }

  static constexpr const char* folder = "peer";

  const session_input& in_;
  const std::function<void(const std::string&)>& history_;
  membership::checker checker_;
  std::vector<peer> peers_;
  std::vector<sim::disk> disks_;
  sim::fault_plan plan_;
  duration horizon_{};
  sim_result total_;
  std::uint64_t newest_ = 0;
  bool over_ = false;
  sim::world world_;  // last: its processes refer to the rest
};

}  // namespace

double nominal_seconds(const session_input& in, double tokens) {
  const settings& s = in.s;
  const auto step_tokens = static_cast<double>(s.train.batch * s.model.context);
  if (s.sim.step_seconds > 0) return s.sim.step_seconds * tokens / step_tokens;
  const auto width = static_cast<double>(s.model.width);
  const double parameters =
      12 * static_cast<double>(s.model.layers) * width * width + static_cast<double>(in.data.codec.vocabulary()) * width;
  return 6 * parameters * tokens / s.sim.flops;
}

causeway::result<sim_result> simulate_run(const session_input& in, const std::function<bool(const sim_progress&)>& progress,
                                          const std::function<void(const std::string&)>& history) {
  return cluster{in, history}.run(progress);
}

}  // namespace app
