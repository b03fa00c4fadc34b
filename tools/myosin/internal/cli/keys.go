package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

func (a *app) keysCommand() *cobra.Command {
	return a.apiGroup("keys", "API keys", a.keysCreateCommand(), a.keysListCommand(), a.keysRevokeCommand())
}

func (a *app) keysCreateCommand() *cobra.Command {
	var (
		body    jobsapi.CreateKey
		expires timeFlag
	)
	cmd := &cobra.Command{
		Use: "create --role ROLE", Short: "make an API key; it is shown this once", Args: cobra.NoArgs,
		Long: `Make an API key. It is printed this once and kept nowhere: only its hash is stored.
read looks but sees no payloads, write changes jobs and runs, admin manages keys,
secrets and the tenant's record as well.`,
		Example: `  myosin keys create --role write --name ci --expires "in 90d" -o json | jq -r .key`,
	}
	oneOfVar(cmd, &body.Role, "role", "what it may do", "read", "write", "admin")
	_ = cmd.MarkFlagRequired("role") // it exists
	cmd.Flags().StringVar(&body.Name, "name", "", "what uses it")
	cmd.Flags().StringVar(&body.Tenant, "tenant", "", "whose; default: the tenant of your key; *: every tenant, for admin only")
	cmd.Flags().Var(&expires, "expires", "when it ends, such as \"in 90d\"; default: never")
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, _ []string) error {
		body.ExpiresAt = expires.at(time.Now(), time.Time{})
		k, err := c.CreateKey(ctx, &body)
		if err != nil {
			return a.uncertain(err)
		}
		return a.out.fields(k, [2]string{"id", k.ID}, [2]string{"tenant", k.Tenant}, [2]string{"role", k.Role},
			[2]string{"name", visible(k.Name)}, [2]string{"expires", ended(k.ExpiresAt)}, [2]string{"key", k.Secret})
	})
	return cmd
}

func (a *app) keysListCommand() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{Use: "list", Short: "list API keys, without what makes them keys", Args: cobra.NoArgs}
	tenantVar(cmd, &tenant)
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, _ []string) error {
		page, err := c.Keys(ctx, tenant)
		if err != nil {
			return err
		}
		rows := make([][]string, len(page.Items))
		for i := range page.Items {
			k := &page.Items[i]
			rows[i] = []string{
				k.ID, k.Tenant, k.Role, orDash(visible(k.Name)), stamp(k.CreatedAt), orDash(ended(k.ExpiresAt)), orDash(ended(k.RevokedAt)),
			}
		}
		return a.out.table(listOf(page), "no keys", "ID TENANT ROLE NAME CREATED EXPIRES REVOKED", rows)
	})
	return cmd
}

// listOf is a page as a JSON array, also where it is empty.
func listOf[T any](p jobsapi.Page[T]) []T {
	if p.Items == nil {
		return []T{}
	}
	return p.Items
}

func (a *app) keysRevokeCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "revoke KEY-ID", Short: "end an API key for good", Args: exactly("KEY-ID"),
		Long: "Revoke an API key, by the id that list shows. It cannot be taken back.",
	}
	yesVar(cmd, &yes)
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
		if err := a.confirm(yes, "revoke key "+visible(args[0])+" for good?"); err != nil {
			return err
		}
		k, err := c.RevokeKey(ctx, args[0])
		if err != nil {
			return err
		}
		return a.out.object(k, "revoked %s", k.ID)
	})
	return cmd
}

func (a *app) secretsCommand() *cobra.Command {
	return a.apiGroup("secrets", "secrets that sign calls to URLs",
		a.secretsCreateCommand(), a.secretsListCommand(), a.secretsDeleteCommand())
}

func (a *app) secretsCreateCommand() *cobra.Command {
	var (
		tenant string
		others time.Duration
	)
	cmd := &cobra.Command{
		Use: "create", Short: "make a signing secret; it is shown this once", Args: cobra.NoArgs,
		Long: `Make a signing secret. It is printed this once. Calls are signed with all of a
tenant's secrets, so that receivers can change over; --expire-others-in ends the
others after so long: a rotation.`,
		Example: `  myosin secrets create --expire-others-in 24h -o json | jq -r .secret`,
	}
	tenantVar(cmd, &tenant)
	durationVar(cmd.Flags(), &others, "expire-others-in", 0, "end the tenant's other secrets after so long; default: they stay")
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, _ []string) error {
		body := jobsapi.CreateSecret{Tenant: tenant}
		if cmd.Flags().Changed("expire-others-in") {
			d := jobsapi.Duration(others)
			body.ExpireOthersIn = &d
		}
		s, err := c.CreateSecret(ctx, &body)
		if err != nil {
			return a.uncertain(err)
		}
		return a.out.fields(s, [2]string{"id", s.ID}, [2]string{"tenant", s.Tenant}, [2]string{"secret", s.Value})
	})
	return cmd
}

func (a *app) secretsListCommand() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{Use: "list", Short: "list signing secrets, without their bytes", Args: cobra.NoArgs}
	tenantVar(cmd, &tenant)
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, _ []string) error {
		page, err := c.Secrets(ctx, tenant)
		if err != nil {
			return err
		}
		rows := make([][]string, len(page.Items))
		for i := range page.Items {
			s := &page.Items[i]
			rows[i] = []string{s.ID, s.Tenant, stamp(s.CreatedAt), orDash(ended(s.ExpiresAt))}
		}
		return a.out.table(listOf(page), "no secrets", "ID TENANT CREATED EXPIRES", rows)
	})
	return cmd
}

func (a *app) secretsDeleteCommand() *cobra.Command {
	var (
		tenant string
		yes    bool
	)
	cmd := &cobra.Command{
		Use: "delete SECRET-ID", Short: "remove a signing secret for good", Args: exactly("SECRET-ID"),
		Long: "Remove a signing secret, by the id that list shows: calls are no longer signed with it.",
	}
	tenantVar(cmd, &tenant)
	yesVar(cmd, &yes)
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
		if err := a.confirm(yes, "remove secret "+visible(args[0])+" for good?"); err != nil {
			return err
		}
		if err := c.DeleteSecret(ctx, tenant, args[0]); err != nil {
			return err
		}
		return a.out.object(struct {
			ID      string `json:"id"`
			Deleted bool   `json:"deleted"`
		}{args[0], true}, "removed %s", visible(args[0]))
	})
	return cmd
}
