// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_TOKENIZER_FOLDER_IPP
#define CAUSEWAY_FORMATS_IMPL_TOKENIZER_FOLDER_IPP

#include <causeway/formats/tokenizer_folder.hpp>

#include <causeway/formats/json.hpp>
#include <causeway/formats/tokenizer_json.hpp>
#include <causeway/formats/tokenizer_parts.hpp>
#include <causeway/formats/weight_files.hpp>

#include <filesystem>
#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

inline bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// A text in a JSON file; empty if either is not there.
inline result<std::string> setting_of(const std::string& path, const char* name) {
  if (!is_there(path)) return std::string{};
  CAUSEWAY_ASSIGN(const std::string text, read_text_file(path, "get it again"));
  CAUSEWAY_ASSIGN(const json_value root, parse_json(text, path));
  const json_value* const value = root.find(name);
  return value == nullptr ? std::string{} : value->text;
}

/// vocab.json and merges.txt say nothing about how text is cut, and other tokenizers have them, too.
inline result<void> check_is_gpt2(const std::string& folder) {
  const std::string config = folder + "/tokenizer_config.json";
  CAUSEWAY_ASSIGN(const std::string type, setting_of(config_file(folder), "model_type"));
  CAUSEWAY_ASSIGN(const std::string kind, setting_of(config, "tokenizer_class"));
  const bool is_gpt2 = kind.empty() ? type == "gpt2" : kind == "GPT2Tokenizer" || kind == "GPT2TokenizerFast";
  if (is_gpt2) return {};
  return fail(errc::unsupported, folder + "/vocab.json",
              "does not say how text is cut, and the model is no gpt2 and no GPT2Tokenizer (it is '" + type + "', '" +
                  kind + "'); get the tokenizer.json of the model");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL result<data::bpe_tokenizer> read_tokenizer_of(const std::string& folder) {
  const std::string remedy = "get the model's folder again";
  const std::string json = folder + "/tokenizer.json", vocabulary = folder + "/vocab.json",
                    ranks = folder + "/tokenizer.model";
  if (detail::is_there(json)) {
    CAUSEWAY_ASSIGN(const std::string text, read_text_file(json, remedy));
    return read_tokenizer(text, json);
  }
  if (detail::is_there(vocabulary)) {
    CAUSEWAY_TRY(detail::check_is_gpt2(folder));
    CAUSEWAY_ASSIGN(const std::string names, read_text_file(vocabulary, remedy));
    CAUSEWAY_ASSIGN(const std::string merges, read_text_file(folder + "/merges.txt", "vocab.json needs it; " + remedy));
    return read_vocabulary_and_merges(names, merges, vocabulary);
  }
  if (detail::is_there(ranks)) {
    CAUSEWAY_ASSIGN(const std::string text, read_text_file(ranks, remedy));
    return read_tiktoken(text, data::piece_rule::llama3, ranks);
  }
  return fail(errc::not_found, json,
              "is not there to say what the model's tokens are, and neither is vocab.json or tokenizer.model; " + remedy);
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_TOKENIZER_FOLDER_IPP
