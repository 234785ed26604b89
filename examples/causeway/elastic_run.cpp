// SPDX-License-Identifier: Apache-2.0
#include "elastic_run.hpp"

#include <causeway/io/file.hpp>
#include <causeway/net/asio_fabric.hpp>
#include <causeway/train/swarm_group.hpp>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "elastic_place.hpp"
#include "failpoint.hpp"
#include "journal.hpp"
#include "launch.hpp"
#include "noted_round.hpp"
#include "peer_folder.hpp"
#include "peer_report.hpp"
#include "peer_talk.hpp"
#include "refounding.hpp"
#include "run_model.hpp"
#include "swarm_front.hpp"
#include "swarm_place.hpp"
#include "welcome.hpp"

namespace app {
namespace {

namespace fs = std::filesystem;
namespace net = causeway::net;
namespace io = causeway::io;
using causeway::errc;
using causeway::fail;

std::string settings_file(const std::string& folder) { return folder + "/settings.toml"; }

causeway::result<std::string> read_text(const std::string& path) {
  io::posix_storage storage;
  CAUSEWAY_ASSIGN(const auto bytes, storage.read(path));
  return std::string{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

causeway::result<void> write_text(const std::string& path, const std::string& text) {
  io::posix_storage storage;
  return storage.write_atomic(path, io::produce(text));
}

// Peers that train on other texts would train, and mean nothing.
causeway::result<void> check_text(const std::string& folder, std::uint64_t hash) {
  const std::string path = folder + "/text.hash";
  const std::string ours = std::to_string(hash) + "\n";
  const auto known = read_text(path);
  if (!known) return write_text(path, ours);
  if (*known == ours) return {};
  return fail(errc::wrong_model, "data.path",
              "this is another text, or cut into other tokens, than the run trains on; give the run's with --data.path");
}

// Where this peer listens: where it was told, else where it did before, so that the others find it again.
causeway::result<net::listener> listen(const settings& s, const std::optional<std::string>& before,
                                       const causeway::log_sink& log) {
  if (!s.net.listen.empty()) {
    CAUSEWAY_ASSIGN(const net::endpoint wanted, net::parse_endpoint(s.net.listen));
    if (wanted.port != 0) return net::open_listener(wanted, log);
  }
  if (before) {
    const auto where = net::parse_endpoint(*before);
    if (where) {
      auto again = net::open_listener(*where, log);
      if (again) return again;
    }
  }
  if (s.net.listen.empty()) return net::open_listener(listen_near(s.net.join), log);
  CAUSEWAY_ASSIGN(const net::endpoint wanted, net::parse_endpoint(s.net.listen));
  return net::open_listener(wanted, log);
}

// Everybody that may be in the run. Empty: this peer founds it.
causeway::result<std::vector<std::string>> whom_to_dial(const settings& s, const std::string& folder,
                                                        const peer_folder& mine, bool may_found) {
  std::vector<std::string> addresses;
  if (!s.net.join.empty()) addresses.push_back(s.net.join);
  bool anybody_known = false;
  for (const sibling& other : peers_on_disk(folder)) {
    anybody_known = anybody_known || other.known;
    if (other.index != mine.index() && !other.address.empty()) addresses.push_back(other.address);
  }
  if (may_found && !anybody_known && s.net.join.empty()) {
    if (!fs::exists(mine.path() + "/rounds")) return std::vector<std::string>{};
    return fail(errc::corrupt, mine.path(),
                "holds rounds of this run but no record of who is in it; join the others with causeway join, or start over "
                "with --run.fresh true");
  }
  return addresses;
}

std::optional<std::string> read_word(const std::string& path) {
  const auto text = read_text(path);
  if (!text || text->empty()) return std::nullopt;
  return text->substr(0, text->find_first_of(" \n"));
}

// What a joiner has on disk about the run, unless it was told to go over to another founding of it.
std::optional<std::string> settings_known(const settings& s, const std::string& folder) {
  auto text = read_text(settings_file(folder));
  settings before;
  origins ignored;
  if (!text || !apply_toml(*text, settings_file(folder), before, ignored)) return std::nullopt;
  if (!s.run.branch.empty() && s.run.branch != before.run.branch) return std::nullopt;
  return std::move(*text);
}

// One process as a peer, from its folder to the end of the run.
class peer_process {
 public:
  /// `door`: a connection to the run that is let go once this peer has its own.
  /// `seats`: what it was told there of a swarm.
  peer_process(session_input in, peer_folder mine, std::shared_ptr<net::fabric> door, std::vector<swarm_seat> seats,
               stop_watch& watch)
      : in_{std::move(in)},
        mine_{std::move(mine)},
        door_{std::move(door)},
        seats_{std::move(seats)},
        watch_{watch},
        report_{in_, mine_.path(), mine_.index()} {}
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;

  ~peer_process() {
    watch_.when_patience_ends({});
    watch_.when_asked({});
  }

  causeway::result<int> run(bool may_found) {
    CAUSEWAY_TRY(report_.open_log());
    for (;;) {
      CAUSEWAY_TRY(is_swarm(in_.s) ? open_swarm_fabrics() : open_fabric());
      CAUSEWAY_TRY(open_group(may_found));
      if (!in_.s.quiet) announce();
      causeway::environment env;
      env.log = report_.log();
      env.group = place_.group;
      if (place_.crew) env.group = place_.crew;
      if (place_.swarm) {
        env.group = std::make_shared<causeway::swarm_group>(place_.group, place_.swarm, place_.storage,
                                                            stage_folder(mine_.path(), seat_.stage));
      }
      const bool llama = in_.s.model.family == "llama";
      auto summary = llama ? run_elastic_llama(in_, place_, std::move(env)) : run_elastic_gpt(in_, place_, std::move(env));
      if (summary) return report_.conclude(*summary);
      const auto next = place_.swarm ? place_.swarm->asked_to_move() : std::nullopt;
      if (!next || in_.stopping()) return summary.error();
      CAUSEWAY_TRY(move_to(*next));
    }
  }

 private:
  [[nodiscard]] net::fabric_options fabric_options_of(std::uint64_t run_id, net::peer_id id) const {
    net::fabric_options options;
    options.run_id = run_id;
    options.id = id;
    options.streams_per_link = in_.s.net.streams;
    options.transport.log = report_.log();
    return options;
  }
  [[nodiscard]] net::peer_id identity(const std::string& folder, std::uint64_t run_id) const {
    return causeway::member_identity(place_.storage, folder, run_id, fresh_identity(mine_.index()));
  }
  [[nodiscard]] std::shared_ptr<net::fabric> with_points(std::shared_ptr<net::fabric> tcp) {
    if (!points_.is("mid_exchange")) return tcp;
    return std::make_shared<passing_fabric>(std::move(tcp), points_);
  }

  causeway::result<void> open_fabric() {
    CAUSEWAY_ASSIGN(net::listener at, listen(in_.s, mine_.address(), report_.log()));
    const auto id = identity(mine_.path(), in_.run_id);
    CAUSEWAY_ASSIGN(const auto tcp, net::open_fabric(std::move(at), fabric_options_of(in_.run_id, id)));
    watch_.when_patience_ends(tcp->interrupter());
    place_.fabric = with_points(tcp);
    return mine_.set_address(tcp->address());
  }

  // One to the peers of its stage, at any port, and one to all, at the address by which others join.
  causeway::result<void> open_swarm_fabrics() {
    CAUSEWAY_ASSIGN(seat_, find_seat(in_.s, in_.folder, mine_, seats_));
    CAUSEWAY_TRY(keep_stage(mine_, seat_.stage));
    const std::string folder = stage_folder(mine_.path(), seat_.stage);
    const std::uint64_t run = stage_run_id(in_.run_id, seat_.stage);
    const auto id = identity(folder, run);
    CAUSEWAY_ASSIGN(net::listener at, listen(in_.s, mine_.address(), report_.log()));
    settings near = in_.s;
    if (!near.net.listen.empty()) near.net.listen = net::endpoint{at.address().host, 0}.text();
    CAUSEWAY_ASSIGN(net::listener inner, listen(near, read_word(folder + "/address"), report_.log()));
    CAUSEWAY_ASSIGN(const auto mates, net::open_fabric(std::move(inner), fabric_options_of(run, id)));
    CAUSEWAY_ASSIGN(const auto all, net::open_fabric(std::move(at), fabric_options_of(in_.run_id, id)));
    watch_.when_patience_ends([one = mates->interrupter(), other = all->interrupter()] { one(), other(); });
    place_.fabric = with_points(mates);
    front_ = std::make_shared<swarm_front>(all, swarm_seat{seat_.stage, 0, mates->address()}, stages_of(in_.s), talk_);
    place_.across = front_;
    CAUSEWAY_TRY(write_text(folder + "/address", mates->address() + "\n"));
    return mine_.set_address(all->address());
  }

  // Others asked it to: with its stage's membership it is through.
  causeway::result<void> move_to(std::uint32_t stage) {
    report_.log()(causeway::severity::info, "moving from stage " + std::to_string(seat_.stage) + " to stage " +
                                                std::to_string(stage) + ", which needs it more");
    seats_ = talk_.seats();
    watch_.when_asked({});
    front_.reset();
    const auto storage = place_.storage;
    place_ = elastic_place{.storage = storage};
    in_.s.parallel.stage = -1;
    return keep_stage(mine_, stage);
  }

  causeway::result<void> open_group(bool may_found) {
    causeway::member_options o = member_options_of(in_.s, in_.run_id);
    o.folder = mine_.path();
    o.members_wait = in_.s.net.join.empty();  // who joined is alone there; a launcher starts the others again
    o.secret = fresh_secret();
    o.passing = place_.passing = [this](std::string_view point) {
      if (point != "joining") door_.reset();
      points_.pass(point);
    };
    talk_ = peer_talk{{in_.data.hash, to_toml(in_.s, true)}};
    std::string journal = journal_name(in_.s.run.branch);
    if (place_.across) {
      join_swarm(o);
      journal = stage_journal(seat_.stage);
    } else {
      CAUSEWAY_ASSIGN(o.dial, whom_to_dial(in_.s, in_.folder, mine_, may_found));
      o.other_messages = [this](net::peer_index link, std::span<const std::byte> message) {
        talk_.hear(*place_.fabric, link, message);
      };
    }
    if (is_pipeline(in_.s)) {  // who is through does not evaluate any more: nobody waits for that
      o.called_away = [this] { return talk_.somebody_is_through(); };
    }
    if (in_.s.run.journal) {
      CAUSEWAY_ASSIGN(auto file, journal_file::open(mine_.path() + "/" + journal));
      journal_.emplace(std::move(file));
      o.journal = [this](const causeway::membership::event& e) { journal_->write(e); };
    }
    CAUSEWAY_ASSIGN(place_.group, causeway::member::make(place_.fabric, place_.storage, o, report_.log()));
    if (is_pipeline(in_.s)) place_.crew = std::make_shared<causeway::crew_group>(place_.group);
    place_.folder = mine_.path();
    place_.events = &report_;
    place_.linger = [this] { return talk_.linger(door(), report_.log()); };
    watch_.when_asked([group = place_.group, swarm = place_.swarm] {
      return group->describe() + (swarm ? swarm->describe() : std::string{});
    });
    return {};
  }

  // The membership is that of a stage, and the swarm stands beside it.
  void join_swarm(causeway::member_options& o) {
    o.protocol.run = stage_run_id(in_.run_id, seat_.stage);
    o.protocol.expected = founders_of(in_.s, seat_.stage);
    o.folder = stage_folder(mine_.path(), seat_.stage);
    o.dial = seat_.mates;
    causeway::parallel::swarm_options swarm{.run = in_.run_id,
                                            .stage = seat_.stage,
                                            .stages = stages_of(in_.s),
                                            .micro_batches = in_.s.train.micro_batches,
                                            .dial = {},
                                            .rebalance_every = std::chrono::seconds{in_.s.parallel.rebalance_every}};
    if (!in_.s.net.join.empty()) swarm.dial.push_back(in_.s.net.join);
    for (const sibling& other : peers_on_disk(in_.folder)) {
      if (other.index != mine_.index() && !other.address.empty()) swarm.dial.push_back(other.address);
    }
    place_.swarm = std::make_shared<noted_round>(make_swarm_peer(in_.s, front_, std::move(swarm), report_.log()),
                                                 [front = front_.get()](double seconds) { front->measured(seconds); });
    o.called_away = [swarm = place_.swarm] { return swarm->called_away(); };
  }

  // The network on which others join.
  [[nodiscard]] net::fabric& door() const { return place_.across ? *place_.across : *place_.fabric; }

  void announce() const {
    std::printf("this is peer %llu, in %s; another one joins with\n\n  %s\n\n",
                static_cast<unsigned long long>(place_.fabric->id()), mine_.path().c_str(),
                join_command(in_.s, door().address()).c_str());
    std::fflush(stdout);
  }

  session_input in_;
  peer_folder mine_;
  std::shared_ptr<net::fabric> door_;
  std::vector<swarm_seat> seats_;
  stop_watch& watch_;
  peer_report report_;
  failpoint points_{mine_.index()};
  peer_talk talk_;
  seat_found seat_;
  std::shared_ptr<swarm_front> front_;
  std::optional<journal_file> journal_;
  elastic_place place_{.storage = io::any_storage{io::posix_storage{}}};
};

causeway::result<int> run_peer(const settings& s, const std::string& folder, peer_folder mine, bool may_found,
                               stop_watch& watch, visit from = {}) {
  CAUSEWAY_TRY(validate(s));
  CAUSEWAY_ASSIGN(corpus data, prepare_corpus(s, folder));
  CAUSEWAY_TRY(check_text(folder, data.hash));
  session_input in{s, std::move(data), folder, run_id_of(s), [] { return stop_requested().load(); }};
  peer_process process{std::move(in), std::move(mine), std::move(from.connection), std::move(from.said.seats), watch};
  return process.run(may_found);
}

}  // namespace

causeway::result<void> agree_on_settings(settings& s, const std::string& folder) {
  const auto text = read_text(settings_file(folder));
  if (!text) return write_text(settings_file(folder), to_toml(s, true));
  settings before = s;
  origins ignored;
  CAUSEWAY_TRY(apply_toml(*text, settings_file(folder), before, ignored));
  if (s.run.branch.empty()) s.run.branch = before.run.branch;
  const std::string name = first_difference(s, before);
  if (name.empty()) return {};
  return fail(errc::wrong_model, name,
              "is not what the run in " + folder +
                  " was started with; leave it as it was, give the run another name with "
                  "--run.name, or start over with --run.fresh true");
}

causeway::result<int> run_founder(settings s, stop_watch& watch) {
  const std::string folder = run_folder(s);
  if (s.run.refound) CAUSEWAY_TRY(refound_run(s, folder));
  CAUSEWAY_TRY(agree_on_settings(s, folder));
  CAUSEWAY_ASSIGN(peer_folder mine, peer_folder::claim(folder, std::max<std::int64_t>(s.net.index, 0)));
  return run_peer(s, folder, std::move(mine), true, watch);
}

causeway::result<int> run_joiner(settings s, const origins& from, stop_watch& watch) {
  const std::string folder = run_folder(s);
  CAUSEWAY_ASSIGN(peer_folder mine, peer_folder::claim(folder, s.net.index));
  const auto known = settings_known(s, folder);
  visit there;
  if (known) {
    there.said.settings = *known;
  } else {
    CAUSEWAY_ASSIGN(there, ask_for_welcome(s.net.join, run_id_of(s), s.net.patience));
  }
  CAUSEWAY_TRY(take_over(s, from, there.said.settings, "the run at " + s.net.join));
  if (known && is_swarm(s) && !stage_before(mine)) {
    CAUSEWAY_ASSIGN(there, ask_for_welcome(s.net.join, run_id_of(s), s.net.patience));
  }
  if (!known) {
    CAUSEWAY_TRY(write_text(folder + "/text.hash", std::to_string(there.said.text_hash) + "\n"));
    CAUSEWAY_TRY(write_text(settings_file(folder), there.said.settings));
  }
  return run_peer(s, folder, std::move(mine), false, watch, std::move(there));
}

causeway::result<int> run_sibling(settings s, const origins& from, stop_watch& watch) {
  const std::string folder = run_folder(s);
  CAUSEWAY_ASSIGN(const std::string known, read_text(settings_file(folder)));
  CAUSEWAY_TRY(take_over(s, from, known, "the run in " + folder));
  CAUSEWAY_ASSIGN(peer_folder mine, peer_folder::claim(folder, s.net.index));
  const bool first = s.net.index == 0;
  return run_peer(s, folder, std::move(mine), first, watch);
}

std::string join_command(const settings& s, const std::string& address) {
  std::string command = "causeway join " + address + " --fault.policy quorum";
  const settings usual;
  if (s.run.name != usual.run.name) command += " --run.name " + s.run.name;
  if (s.run.seed != usual.run.seed) command += " --run.seed " + std::to_string(s.run.seed);
  if (!s.run.branch.empty()) command += " --run.branch " + s.run.branch;
  return command + " --data.path TEXT";
}

}  // namespace app
