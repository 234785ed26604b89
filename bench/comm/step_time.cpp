// SPDX-License-Identifier: Apache-2.0

// Time of a step of comm::every_step among peers of this machine, real trainers over loopback sockets, one thread each.
//   step_time PEERS STEPS fixed|quorum FOLDER
// `fixed`: fault::fail_stop over a mesh. `quorum`: fault::quorum with a membership, whose records are written to FOLDER.
// Prints the median and the quartiles of the first peer's steps in milliseconds, a tenth of them left out at the beginning.

#include <causeway/comm/every_step.hpp>
#include <causeway/fault/fail_stop.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/io/file.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/net/asio_fabric.hpp>
#include <causeway/net/rendezvous.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/member.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace causeway;

constexpr std::uint64_t run = 5;
constexpr std::int64_t context = 32;
constexpr nn::gpt_options shape{.layers = 4, .heads = 4, .width = 128, .context = context, .vocabulary = 256};

/// Ends the program: one peer without a step is no measurement.
template <class T>
T must(result<T> what) {
  if (what) return std::move(what).value();
  std::fprintf(stderr, "%s\n", what.error().text().c_str());
  std::_Exit(1);
}
void must(const result<void>& what) {
  if (what) return;
  std::fprintf(stderr, "%s\n", what.error().text().c_str());
  std::_Exit(1);
}

batch some_tokens(std::uint64_t number) {
  static thread_local std::vector<std::int32_t> tokens(context + 1);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>((number * 31 + i * 7) % 256);
  return {std::span{tokens}.first(context), std::span{tokens}.last(context), 1};
}

template <class Trainer, class Next>
std::vector<double> steps_of(Trainer& trainer, int count, Next next) {
  must(trainer.start());
  std::vector<double> took;
  for (int i = 0; i < count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    must(trainer.step(next()));
    took.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  return took;
}

nn::gpt model() { return must(nn::gpt::create(shape, kernels::cpu_backend{1})); }

std::vector<double> fixed(net::membership member, int count) {
  auto trainer = make_trainer(model(), environment{.transport = net::any_transport{std::move(member.transport)}},
                              trainer_options{}, comm::every_step<>{}, fault::fail_stop{}, optim::sgd{});
  std::uint64_t number = 0;
  auto took = steps_of(trainer, count, [&] { return some_tokens(number++); });
  must(trainer.finish());
  return took;
}

std::vector<double> elastic(std::shared_ptr<net::fabric> fabric, member_options options, int count) {
  environment env;
  env.group = must(member::make(std::move(fabric), io::any_storage{io::posix_storage{}}, std::move(options), {}));
  auto trainer =
      make_trainer(model(), std::move(env), trainer_options{}, comm::every_step<>{}, fault::quorum{}, optim::sgd{});
  return steps_of(trainer, count, [&] { return some_tokens(must(trainer.draw(1)).at(0)); });
}

std::vector<double> run_fixed(std::uint32_t peers, int count) {
  auto listener = must(net::open_listener({"127.0.0.1", 0}));
  const auto address = listener.address();
  std::vector<std::thread> others;
  for (std::uint32_t i = 1; i < peers; ++i) {
    others.emplace_back([&] { (void)fixed(must(net::join(address, {.run_id = run})), count); });
  }
  auto took = fixed(must(net::host(std::move(listener), peers, {}, {.run_id = run})), count);
  for (auto& t : others) t.join();
  return took;
}

std::vector<double> run_quorum(std::uint32_t peers, int count, const std::string& folder) {
  std::string address;
  const auto live = [&](std::uint32_t i, auto told) {
    auto fabric = must(net::open_fabric(net::endpoint{"127.0.0.1", 0}, {.run_id = run, .id = i + 1}));
    member_options o;
    o.protocol.run = run;
    o.protocol.expected = peers;
    o.protocol.quota = 64;
    o.protocol.budget = std::uint64_t{1} << 40U;
    o.folder = folder + "/peer-" + std::to_string(i);
    o.store_every = 0;
    std::filesystem::remove_all(o.folder);
    if (i > 0) o.dial = {address};
    told(fabric->address());
    return elastic(std::move(fabric), std::move(o), count);
  };
  std::promise<std::vector<double>> first;
  std::promise<std::string> listens;
  std::thread{[&] { first.set_value(live(0, [&](const std::string& at) { listens.set_value(at); })); }}.detach();
  address = listens.get_future().get();
  for (std::uint32_t i = 1; i < peers; ++i) std::thread{[&, i] { (void)live(i, [](const std::string&) {}); }}.detach();
  return first.get_future().get();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::puts("usage: step_time PEERS STEPS fixed|quorum FOLDER"), 2;
  const auto peers = static_cast<std::uint32_t>(std::atoi(argv[1]));
  const int count = std::atoi(argv[2]);
  auto took = std::string_view{argv[3]} == "quorum" ? run_quorum(peers, count, argv[4]) : run_fixed(peers, count);
  took.erase(took.begin(), took.begin() + static_cast<std::ptrdiff_t>(took.size() / 10));
  std::sort(took.begin(), took.end());
  const auto at = [&](double share) { return took[static_cast<std::size_t>(share * static_cast<double>(took.size()))]; };
  std::printf("%s %u peers: %.3f ms a step (%.3f to %.3f)\n", argv[3], peers, at(0.5), at(0.25), at(0.75));
  std::fflush(stdout);
  std::_Exit(0);  // peers of a membership would wait for the others
}
