// SPDX-License-Identifier: Apache-2.0
#include "serve.hpp"

#include <causeway/compress/dynamic_int8.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/io/archive.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/io/file.hpp>
#include <causeway/net/asio_fabric.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/nn/llama.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/parallel/experts/expert_host.hpp>
#include <causeway/parallel/serving/block_server.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/expert.hpp>
#include <causeway/stage/frozen_blocks.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "addresses.hpp"
#include "fixed_run.hpp"
#include "run_folder.hpp"
#include "served_part.hpp"
#include "starting_model.hpp"
#include "text_file.hpp"
#include "welcome.hpp"

namespace app {
namespace {

namespace io = causeway::io;
namespace net = causeway::net;
namespace nn = causeway::nn;
namespace parallel = causeway::parallel;
namespace stage = causeway::stage;
using causeway::errc;
using causeway::fail;
using causeway::result;
using namespace std::chrono_literals;

using expert = stage::feed_forward_expert<causeway::optim::adamw>;
using experts = std::map<stage::expert_id, expert>;

/// A server's place: its network, its folder, and when it is to end.
struct server_place {
  std::shared_ptr<net::fabric> fabric;
  std::string folder;
  std::function<bool()> over;
  std::function<void()> ready;  ///< it listens
};

constexpr auto look_every = 200ms;

// Serves piece by piece, because nobody wakes it for a signal; `between` is called meanwhile.
template <class Server>
result<void> serve_until(Server& server, const server_place& at, const std::function<result<void>()>& between) {
  CAUSEWAY_TRY(server.open());
  at.ready();
  while (!at.over()) {
    causeway::time_point now;
    at.fabric->locked([&] { now = at.fabric->now(); });
    CAUSEWAY_TRY(server.serve(at.over, now + look_every));
    CAUSEWAY_TRY(between());
  }
  return {};
}

// ---- experts ----------------------------------------------------------------------------------------------------------

/// On disk, so that a run goes on with experts as they were. A step is an update of any of them.
class expert_store {
 public:
  expert_store(const std::string& folder, const settings& s)
      : disk_{io::posix_storage{}, folder}, run_{run_id_of(s)}, shape_{shape_of(s)} {}

  result<void> restore(experts& all) {
    const auto newest = disk_.load_newest();
    if (!newest && newest.error().code == errc::not_found) return {};
    if (!newest) return newest.error();
    const auto shape = newest->file.find("shape");
    std::uint64_t theirs = 0;
    if (!shape || !io::from_bytes(shape->bytes, theirs) || theirs != shape_) {
      return fail(errc::wrong_model, disk_.directory(),
                  "has experts of another size or grid; give the settings that they had, or another --run.name");
    }
    for (auto& [id, one] : all) {
      const auto found = newest->file.find(name_of(id));
      if (!found) continue;  // another server had it then
      CAUSEWAY_TRY(io::from_bytes(found->bytes, one));
    }
    saved_ = updates(all);
    return {};
  }

  result<void> save(experts& all) {
    const std::uint64_t now = updates(all);
    if (now == saved_) return {};
    CAUSEWAY_ASSIGN(auto shape, io::to_bytes(shape_));
    std::vector<io::section> sections;
    sections.emplace_back("shape", 1, std::move(shape));
    for (auto& [id, one] : all) {
      CAUSEWAY_ASSIGN(auto bytes, io::to_bytes(one));
      sections.emplace_back(name_of(id), 1, std::move(bytes));
    }
    CAUSEWAY_TRY(disk_.save(now, sections, run_));
    saved_ = now;
    return {};
  }

 private:
  static std::uint64_t shape_of(const settings& s) {
    causeway::hasher h;
    h.add_value(s.model.width).add_value(s.model.hidden).add_value(s.model.layers);
    for (const std::uint32_t side : s.experts.sides) h.add_value(side);
    return h.finish();
  }
  static std::string name_of(stage::expert_id id) { return "expert." + std::to_string(id); }
  static std::uint64_t updates(const experts& all) {
    std::uint64_t sum = 0;
    for (const auto& [id, one] : all) sum += one.updates();
    return sum;
  }

  io::checkpoint_directory<io::posix_storage> disk_;
  std::uint64_t run_;
  std::uint64_t shape_;
  std::uint64_t saved_ = 0;
};

experts make_experts(const settings& s) {
  experts all;
  const std::int64_t hidden = s.model.hidden == 0 ? 4 * s.model.width : s.model.hidden;
  const std::uint64_t places = parallel::grid_of(mixture_of(s)).places();
  for (stage::expert_id e = s.servers.part; e < places; e += s.servers.parts) {
    all.emplace(e, expert{{.width = s.model.width,
                           .hidden = hidden,
                           .learning_rate = s.experts.learning_rate,
                           .clip_norm = s.train.clip,
                           .seed = causeway::mix(s.run.seed, e)},
                          causeway::optim::adamw{{.weight_decay = s.train.weight_decay}},
                          s.net.threads});
  }
  return all;
}

result<void> serve_experts(const settings& s, const server_place& at) {
  expert_store store{at.folder, s};
  experts mine = make_experts(s);
  CAUSEWAY_TRY(store.restore(mine));
  parallel::expert_host<expert> host{at.fabric, {.mixture = mixture_of(s)}, std::move(mine)};
  causeway::steady_clock clock;
  causeway::time_point saved = clock.now();
  const auto save_now_and_then = [&]() -> result<void> {
    if (clock.now() - saved < 60s) return {};
    saved = clock.now();
    return store.save(host.experts());
  };
  CAUSEWAY_TRY(serve_until(host, at, save_now_and_then));
  return store.save(host.experts());
}

// ---- frozen blocks ----------------------------------------------------------------------------------------------------

parallel::block_server_options block_options(const settings& s, std::int64_t layers) {
  parallel::block_server_options o;
  o.run = server_network(s);
  o.dial = s.servers.at;
  o.seed = causeway::mix(s.run.seed, s.servers.part);
  o.blocks = s.servers.blocks;
  if (o.blocks > 0) return o;
  const std::int64_t part = s.servers.part, parts = s.servers.parts;
  o.first = layers * part / parts;
  o.blocks = layers * (part + 1) / parts - *o.first;
  return o;
}

template <class Family>
result<void> serve_blocks(const settings& s, const server_place& at, const typename Family::options_type& model) {
  using blocks_type = stage::frozen_blocks<Family>;
  CAUSEWAY_ASSIGN(auto blocks, blocks_type::create(model, stored_in(s.model.init, model), s.net.threads));
  using codec_type = stage::coded<causeway::compress::dynamic_int8>;
  parallel::block_server<blocks_type, codec_type> server{at.fabric, block_options(s, model.layers), std::move(blocks),
                                                         codec_type{}, log_to_stderr()};
  return serve_until(server, at, [] { return result<void>{}; });
}

// ---- both -------------------------------------------------------------------------------------------------------------

result<void> serve_part(const settings& s, const server_place& at) {
  if (has_experts(s)) return serve_experts(s, at);
  CAUSEWAY_TRY(check_start(s));
  CAUSEWAY_ASSIGN(const auto stored, causeway::formats::read_config_of(s.model.init));
  if (const auto* const gpt = std::get_if<nn::gpt_options>(&stored)) return serve_blocks<nn::gpt_family>(s, at, *gpt);
  return serve_blocks<nn::llama_family>(s, at, std::get<nn::llama_options>(stored));
}

result<void> make_folder(const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (!failure) return {};
  return fail(errc::io_failed, folder, "cannot be made: " + failure.message() + "; choose another run.directory");
}

// Where it was told, else where it was before, so that peers find it again.
result<net::listener> listen(const settings& s, const std::string& before) {
  CAUSEWAY_ASSIGN(const net::endpoint wanted, net::parse_endpoint(s.net.listen.empty() ? "127.0.0.1:0" : s.net.listen));
  const auto then = net::parse_endpoint(before);
  if (then && wanted.port == 0) {
    auto again = net::open_listener({wanted.host, then->port}, log_to_stderr());
    if (again) return again;
  }
  return net::open_listener(wanted, log_to_stderr());
}

std::string use_of(const settings& s, const std::string& address) {
  const std::string what = s.run.preset.empty() ? "--parallel " + s.parallel.policy : "--preset " + s.run.preset;
  return "causeway train " + what + (tunes_served(s) ? " --init " + s.model.init : "") + " --servers " + address;
}

result<int> serve_at(const settings& s, std::function<bool()> over,
                     const std::function<void(const std::string&)>& listens) {
  const std::string folder = server_folder(s, s.servers.part);
  CAUSEWAY_TRY(make_folder(folder));
  CAUSEWAY_ASSIGN(net::listener at, listen(s, read_word(folder + "/address").value_or("")));
  const std::string address = reachable_at(at.address(), s.net.announce).front();
  net::fabric_options options = server_fabric(s, fresh_identity(s.servers.part));
  options.announce = announcement(at.address(), s.net.announce);
  CAUSEWAY_ASSIGN(const auto fabric, net::open_fabric(std::move(at), std::move(options)));
  CAUSEWAY_TRY(write_text(folder + "/address", address + " " + std::to_string(getpid()) + "\n"));
  CAUSEWAY_TRY(serve_part(s, {fabric, folder, std::move(over), [&] { listens(address); }}));
  return 0;
}

}  // namespace

std::string server_folder(const settings& s, std::uint32_t part) {
  return run_folder(s) + "/server-" + std::to_string(part);
}

result<int> serve(settings s, const origins&, stop_watch&) {
  if (!has_servers(s)) {
    return fail(errc::invalid_argument, "parallel.policy",
                "say what to serve: --preset learning_at_home, petals_finetune or petals_lora");
  }
  if (s.net.listen.empty()) return fail(errc::invalid_argument, "net.listen", "say where, as --listen 0.0.0.0:29600");
  if (tunes_served(s) && s.model.start.empty() && !s.model.init.empty()) {
    CAUSEWAY_ASSIGN(s.model.start, hash_of_weights(s.model.init));
  }
  CAUSEWAY_TRY(validate(s));
  CAUSEWAY_TRY(check_run_name(s));
  if (s.net.threads == 0) s.net.threads = default_threads(s);
  const auto status = serve_at(
      s, [] { return stop_requested().load(); },
      [&](const std::string& address) {
        std::printf("serving part %u of %u at %s; with all parts, peers train with\n\n  %s\n\n", s.servers.part,
                    s.servers.parts, address.c_str(), use_of(s, address).c_str());
        std::fflush(stdout);
      });
  if (status) return interrupted;
  return status;
}

result<int> serve_run(settings s, const origins& from, stop_watch&) {
  const pid_t launcher = getppid();
  CAUSEWAY_TRY(check_run_name(s));
  const auto known = kept_settings(run_folder(s));
  if (!known) return fail(errc::not_found, run_folder(s), "has no settings; causeway train starts its servers");
  CAUSEWAY_TRY(take_over(s, from, *known, "the run in " + run_folder(s)));
  return serve_at(
      s, [launcher] { return stop_requested().load() || getppid() != launcher; }, [](const std::string&) {});
}

}  // namespace app
